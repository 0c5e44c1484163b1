"""Ports from backends, and what a missing or wrong one says."""

import asyncio

import pytest

from fitrag_integrations.errors import FitRagError, InputError, PortError
from fitrag_integrations.flow import Port, arun, run, run_many
from fitrag_integrations.ports import Evaluator, Gate, Ports, Retriever, Scorer, gate_port, port_of
from fitrag_integrations.types import BiLabelScore, Passage


class Backend:
    threshold = 0.7

    def __init__(self):
        self.calls = []

    def score(self, pairs):
        self.calls.append(len(pairs))
        return [BiLabelScore(0.5) for _ in pairs]

    async def ascore(self, pairs):
        return [BiLabelScore(0.25) for _ in pairs]

    def p_known(self, questions, drafts):
        self.calls.append((list(questions), list(drafts)))
        return [0.5 for _ in questions]


PAIR = ("q", Passage("p", "text"))


def test_protocols_are_met_by_having_the_method():
    assert isinstance(Backend(), Scorer) and isinstance(Backend(), Gate)
    assert not isinstance(Backend(), Retriever) and not isinstance(Backend(), Evaluator)


def test_a_backend_and_its_async_twin_make_one_port():
    port = port_of("score", Backend(), "score")
    assert run(port.ask([PAIR])).value == [BiLabelScore(0.5)]
    assert asyncio.run(arun(port.ask([PAIR]))).value == [BiLabelScore(0.25)]


def test_ports_of_one_object_join():
    backend = Backend()
    run_many([port_of("score", backend, "score").ask([PAIR]) for _ in range(3)])
    assert backend.calls == [3]


def test_a_callable_or_a_port_will_do():
    assert run(port_of("search", lambda queries: ["x"], "search").ask(["q"])).value == ["x"]
    port = Port.of("mine", len)
    assert port_of("search", port, "search") is port


def test_a_coroutine_function_or_an_async_callable_is_async():
    async def search(queries):
        return list(queries)

    class Searching:
        async def __call__(self, queries):
            return list(queries)

    for backend in (search, Searching()):
        assert asyncio.run(arun(port_of("search", backend, "search").ask(["q"]))).value == ["q"]


@pytest.mark.parametrize("backend", [None, "name", 3, Backend, object()])
def test_what_has_no_method_is_refused(backend):
    with pytest.raises(InputError, match=r"scorer` must be an object with a 'score'"):
        port_of("scorer", backend, "score")
    with pytest.raises(InputError, match="^`mine` must be"):
        port_of("scorer", backend, "score", argument="mine")


@pytest.mark.parametrize("name", ["retrieve", "search", "generate"])
def test_a_missing_port_is_falsy_and_says_what_to_give(name):
    port = getattr(Ports(), name)
    assert not port
    with pytest.raises(PortError, match=rf"give Ports\({name}=\.\.\.\)"):
        port.ask(["q"])


def test_a_given_port_is_true():
    ports = Ports(lambda queries: [[] for _ in queries])
    assert ports.retrieve and not ports.search
    assert run(ports.retrieve.ask(["q"])).value == [[]]


def test_a_gate_is_asked_with_pairs_and_joins():
    gate = Backend()
    run_many([gate_port(gate).ask([(question, "draft")]) for question in "ab"])
    assert gate.calls == [(["a", "b"], ["draft", "draft"])]
    with pytest.raises(InputError, match="gate` must be"):
        gate_port(object())


def test_every_error_is_in_one_tree_and_pickles():
    import pickle

    from fitrag_integrations import errors

    for name in ("InputError", "MissingExtraError", "ChecksumError", "ThresholdMismatchError"):
        error = getattr(errors, name)("why")
        assert isinstance(error, FitRagError)
        assert str(pickle.loads(pickle.dumps(error))) == "why"


def test_a_missing_extra_is_worded_in_one_place():
    from fitrag_integrations.core.extras import require_extra
    from fitrag_integrations.errors import MissingExtraError

    wanted = r'no_such_module is needed for Index: pip install "fitrag-integrations\[faiss\]"'
    with pytest.raises(MissingExtraError, match=wanted):
        require_extra("no_such_module.part", extra="faiss", feature="Index")
    assert require_extra("json", extra="x", feature="y").dumps([]) == "[]"


def test_a_port_knows_whose_calls_it_makes():
    class Async:
        name = "only async"

        async def ascore(self, pairs):
            return []

    one = Async()
    assert port_of("score", one, "score").owner is one
    assert Port.of("score", None, one.ascore).owner is one
    assert Port.of("score", one.ascore).owner is one
    plain = Port.of("score", len)
    assert plain == Port("score", len)  # equality ignores the owner
