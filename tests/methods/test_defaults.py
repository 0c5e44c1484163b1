"""The embedded scorer: named as text, loaded once, off the event loop, and asked natively."""

import asyncio
import threading

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.methods import defaults as _defaults
from fitrag_integrations.methods.fitrag.method import Reranking
from fitrag_integrations.types import BiLabelScore, Passage

PASSAGES = [Passage("a", "one"), Passage("b", "longer")]


class Lengths:
    """Stand for the embedded scorer; remember the threads of loading and of each call."""

    def __init__(self, seen):
        self.seen = seen

    def score(self, pairs):
        self.seen.append(("score", len(pairs), threading.get_ident()))
        return [BiLabelScore(len(passage.text) / 10) for _, passage in pairs]

    def answerable(self, labels):
        return None

    async def ascore(self, pairs):
        self.seen.append(("ascore", len(pairs), threading.get_ident()))
        return [BiLabelScore(len(passage.text) / 10) for _, passage in pairs]


@pytest.fixture
def seen(monkeypatch):
    """Put a home for the scorer where the models would be loaded from."""
    calls = []

    class Home:
        @staticmethod
        def embedded():
            calls.append(("load", 0, threading.get_ident()))
            return Lengths(calls)

    monkeypatch.setattr(_defaults, "kind_of", lambda role: Home)
    monkeypatch.setattr(_defaults, "_loaded", {})
    return calls


def reranking(question):
    return Reranking().context(question, PASSAGES)


def test_it_is_loaded_once_and_questions_share_its_calls(seen):
    for _ in range(2):
        traces = run_many([reranking("q"), reranking("r")])
        assert [[e.passage.id for e in trace.value.excerpts] for trace in traces] == [
            ["b", "a"]
        ] * 2
    assert [(name, count) for name, count, _ in seen] == [("load", 0), ("score", 4), ("score", 4)]


def test_async_it_is_loaded_in_a_thread_and_asked_on_the_loop(seen):
    async def main():
        return [await arun_many([reranking("q"), reranking("r")]) for _ in range(2)]

    first, second = asyncio.run(main())
    assert [trace.value for trace in first] == [trace.value for trace in second]
    assert [(name, count) for name, count, _ in seen] == [("load", 0), ("ascore", 4), ("ascore", 4)]
    here = threading.get_ident()
    assert [thread == here for _, _, thread in seen] == [False, True, True]
    assert run(reranking("q")).value == first[0].value


def test_an_unknown_role_is_refused():
    with pytest.raises(InputError, match="role` must be"):
        _defaults.default_model("cook")
