"""Costs read off a trace, and the lines of the table, by hand."""

from dataclasses import dataclass

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figure import paired_interval
from fitrag_integrations.evaluation.figures.methods import Spent, System, methods_table, spent
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.flow import Step
from fitrag_integrations.types import Draft, Passage


def words(text):
    return len(text.split())


@dataclass(frozen=True)
class Span:
    text: str
    score: float


def test_a_trace_is_added_up_by_the_ports_of_its_steps():
    one, other = Passage("a", "It is long.", "River"), Passage("b", "Rain falls.")
    steps = [
        Step("gate", [("who is it", "x")], [0.2], 0.1),
        Step("draft", ["who is it"], [Draft("a short guess")], 0.1),
        Step("p_yes", ["do you know it"], [0.3], 0.1),
        Step("retrieve", ["who is it", "it is"], [[one], [other]], 0.1),
        Step("search", ["it is"], [[other]], 0.1),
        Step("score", [("who is it", one)], [0.5], 0.1),
        Step("ensemble", [(("one two", "three"), (0.5, 0.5))], ["four"], 0.1),
        Step("generate", ["one two"], [], 0.1, error="RuntimeError: away"),
        Step(
            "read", [("who is it", one), ("who is it", other)], [Span("x", 0.1), Span("y z", 2)], 0
        ),
    ]
    given = 3 + 4 + 3 + 2 + (3 + 4 + 2)
    assert spent(steps, words) == Spent(3, 5, given, 3 + 1 + 2)
    assert spent([]) == Spent()


def line(method, row, correct, **fields):
    return {
        "method": method,
        "row": row,
        "correct": correct,
        "f1": 0.5 * correct,
        "retrieved": row == 0,
        "retriever_calls": 2,
        "llm_calls": row,
        "tokens_in": 10 * row,
        "tokens_out": 4,
        "seconds": 0.25,
        "notes": ["cut"] * (row == 1),
        **fields,
    }


def test_lines_by_hand():
    first = [line("direct", row, row < 2) for row in range(4)]
    second = [line("crag", row, row < 3) for row in (2, 0, 3)]  # in any order
    second.append(line("crag", 1, False, error={"message": "away"}))
    one, other = lines = methods_table([*first, *second], Draws(200, 3))
    assert (one.name, one.questions, one.errors, one.accuracy.value) == ("direct", 4, 0, 0.5)
    names = ("f1", "retrieval", "retriever_calls", "llm_calls", "tokens_in", "tokens_out")
    assert [one.value(name) for name in names] == [0.25, 0.25, 2, 1.5, 15, 4]
    assert (one.value("seconds"), one.value("noted")) == (0.25, 0.25)
    told = one.to_dict()
    assert (told["difference"], told["low"], told["high"]) == (None, None, None)
    told = other.to_dict()
    assert (told["errors"], told["accuracy"], told["difference"]) == (1, 0.5, 0.0)
    bounds = paired_interval([1, 0, 1, 0], [1, 1, 0, 0], resamples=200, seed=3)
    assert (told["low"], told["high"]) == bounds
    assert methods_table([*first, *second], Draws(200, 3)) == lines
    assert methods_table([]) == []
    assert [System.of_line(line.to_dict()).to_dict() for line in lines] == [
        line.to_dict() for line in lines
    ]


def test_methods_have_to_be_asked_the_same():
    with pytest.raises(InputError, match="other questions for 'crag' than for 'direct'"):
        methods_table([line("direct", 0, True), line("crag", 1, True)])
