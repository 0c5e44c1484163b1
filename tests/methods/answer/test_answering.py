"""From a context to an answer, read out or generated, and how that is explained."""

from dataclasses import dataclass

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods.answering import (
    ABSTAINED,
    NOTHING_TO_READ,
    WROTE_NOTHING,
    Answering,
)
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision

FILM = Passage("film", "It is a film. Nino Rota wrote it.", "Amarcord")
QUESTION = "Who wrote it?"


def keeping(*excerpts, notes=()):
    """Make a method that keeps these excerpts."""

    def method(question, ports):
        return Context(question, excerpts, notes=notes)
        yield

    return method


@dataclass
class Span:
    text: str
    start: int
    end: int
    score: float


class RotaReader:
    abstain_below = 0.5

    def __init__(self, score=0.9):
        self.score = score

    def read(self, pairs):
        starts = [passage.text.index("Nino Rota") for _, passage in pairs]
        return [Span("Nino Rota", start, start + 9, self.score) for start in starts]


def test_an_extracted_answer_is_told_with_its_place():
    method = keeping(Excerpt(FILM, 14, 33, 1.5), notes=("no web",))
    trace = run(Answering(method, reader=RotaReader())(QUESTION, Ports()))
    assert trace.value.source.text == trace.value.text == "Nino Rota"
    explained = trace.explain().splitlines()
    assert explained[0] == "question: Who wrote it?"
    assert explained.pop().startswith("1. read: 1 asked")
    assert explained[1:] == [
        "kept 1 excerpts",
        "  Amarcord [14:33] 1.50: Nino Rota wrote it.",
        "answer: Nino Rota",
        "source: Amarcord [14:23] 0.90",
        "note: no web",
    ]


def test_a_generated_answer_is_told_without_a_place():
    answering = Answering(keeping(Excerpt.whole(FILM)))
    explained = run(answering(QUESTION, Ports(generate=lambda prompts: [" Nino\nRota "]))).explain()
    assert explained.splitlines()[1:-1] == [
        "kept 1 excerpts",
        f"  Amarcord [0:33] 0.00: {FILM.text}",
        "answer: Nino Rota",
    ]


def test_no_answer_is_told_with_its_reason():
    explained = run(
        Answering(keeping(Excerpt.whole(FILM)), reader=RotaReader(0.1))(QUESTION, Ports())
    )
    assert explained.explain().splitlines()[-3:-1] == ["answer: none", f"note: {ABSTAINED}"]


def test_a_wrong_reader_is_told_by_the_arguments_name():
    with pytest.raises(InputError, match="^`reader` must be"):
        _ = run(Answering(keeping(), reader=7)(QUESTION, Ports())).value


def test_an_answer_the_method_wrote_stands():
    def method(question, ports):
        yield from ()
        return Context(question, draft=" Rota ", details={"answers": True})

    for answering in (Answering(method), Answering(method, reader=RotaReader())):
        traced = run(answering(QUESTION, Ports()))
        assert (traced.value.text, traced.steps) == ("Rota", ())


def test_a_question_not_retrieved_for_is_left_to_the_model():
    def method(question, ports):
        yield from ()
        return Context(question, decision=RetrievalDecision(False, why="known"))

    ports = Ports(generate=lambda prompts: ["by heart"])
    assert run(Answering(method, reader=RotaReader())(QUESTION, ports)).value.text == "by heart"
    none = run(Answering(method, reader=RotaReader())(QUESTION, Ports())).value
    assert (none.text, none.context.notes) == ("", (NOTHING_TO_READ,))


def test_a_model_that_writes_nothing_is_told():
    answering = Answering(keeping(Excerpt.whole(FILM)))
    explained = run(answering(QUESTION, Ports(generate=lambda prompts: [" \n"]))).explain()
    assert explained.splitlines()[-3:-1] == ["answer: none", f"note: {WROTE_NOTHING}"]
