"""Refinement: one ask, the best strips over the threshold, and the order of the documents."""

from dataclasses import replace

import pytest
from by_eye import THRESHOLDS, ByEye, passage
from by_hand import finished
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.flow import run
from fitrag_integrations.methods import Refiner, approximate_tokens
from fitrag_integrations.methods.budget import Budget
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.types import Passage

ONE = passage("one", 0.1, -0.3, 0.9, 0.2)  # two strips: best grades 0.1 and 0.9
TWO = passage("two", 0.5)
LOW = passage("low", -0.7, -0.6)


def refined(passages, evaluator=None, **options):
    return run(Refiner(evaluator or ByEye(), **options)("q", passages)).value


def test_all_strips_are_graded_in_one_ask():
    flow = Refiner(ByEye())("Who?", [ONE, TWO, LOW])
    ask = flow.send(None)
    assert ask.port.name == "evaluate"
    assert [(question, read.id) for question, read in ask.items] == [
        ("Who?", "one#0-48"),
        ("Who?", "one#49-96"),
        ("Who?", "two#0-23"),
        ("Who?", "low#0-49"),
    ]
    kept = finished(flow, [0.1, 0.9, 0.5, -0.6])
    assert [(e.passage.id, e.start, e.score) for e in kept.excerpts] == [
        ("one", 0, 0.1),
        ("one", 49, 0.9),
        ("two", 0, 0.5),
    ]
    assert kept.notes == ()
    assert kept.details == {
        "strips": 4,
        "kept": 3,
        "top_n": 5,
        "strip_threshold": -0.2,
        "sentences": 3,
        "max_tokens": None,
        "tokens_in": approximate_tokens(render_excerpts([*kept.excerpts, *_wholes(LOW)])),
        "tokens_out": approximate_tokens(render_excerpts(kept.excerpts)),
    }


def _wholes(*passages):
    return run(Refiner(ByEye(), threshold=-1)("q", passages)).value.excerpts


def test_the_best_are_kept_in_document_order():
    many = [passage(str(at), grade) for at, grade in enumerate([0.1, 0.9, 0.3, 0.8, 0.2, 0.7])]
    assert [e.score for e in refined(many, top_n=3).excerpts] == [0.9, 0.8, 0.7]
    assert [e.score for e in refined(many).excerpts] == [0.9, 0.3, 0.8, 0.2, 0.7]
    assert len(refined(many, top_n=None).excerpts) == 6


def test_the_threshold_may_be_reached():
    assert [e.score for e in refined([ONE, TWO], threshold=0.5).excerpts] == [0.9, 0.5]
    assert len(refined([ONE, TWO, LOW, Passage("z", "No grade.")], threshold=-1).excerpts) == 5


def test_where_nothing_passes_the_best_is_kept_with_a_note():
    got = refined([passage("a", -0.9), LOW])
    assert [e.score for e in got.excerpts] == [-0.6]
    assert got.notes == ("none of 2 strips reaches -0.20: the best, graded -0.60, is kept",)


def test_repeated_and_blank_text_is_left_out_with_a_note():
    page = Passage("copy", f"{TWO.text}\n\nMore <0.1>.", TWO.title, "", {"web": True})
    got = refined([TWO, page, Passage("blank", " "), TWO])
    assert [(e.passage.id, e.score) for e in got.excerpts] == [("two", 0.5), ("copy", 0.1)]
    assert got.notes == (
        "1 of 4 passages left out: no text",
        "1 of 4 passages left out: repeated",
        "1 of 3 strips left out: repeated",
    )


def test_the_budget_goes_to_the_best_and_keeps_their_order():
    many = [passage(str(at), grade) for at, grade in enumerate([0.1, 0.9, 0.3, 0.8])]
    two = Budget().returned(refined([many[1], many[3]]).excerpts)
    got = refined(many, max_tokens=two)
    assert [e.score for e in got.excerpts] == [0.9, 0.8]
    assert got.notes == (f"2 of 4 excerpts left out by max_tokens={two}",)
    assert got.details["tokens_out"] <= two


@given(st.lists(st.floats(-1, 1), max_size=9), st.integers(1, 9), st.integers(1, 60))
def test_no_budget_is_overspent(grades, top_n, most):
    def order_matters(text):  # a line that begins with another number costs more
        return len(text.split()) + sum(
            at * line.count("of 0") for at, line in enumerate(text.split("\n"))
        )

    many = [passage(str(at), round(grade, 3)) for at, grade in enumerate(grades)]
    got = refined(many, top_n=top_n, threshold=-1, max_tokens=most, count_tokens=order_matters)
    assert got.details["tokens_out"] <= most
    assert len(got.excerpts) <= top_n
    places = [int(e.passage.id) for e in got.excerpts]
    assert places == sorted(places)


@pytest.mark.parametrize(("options", "count"), [({}, 2), ({"sentences": 4}, 1)])
def test_strips_are_as_long_as_the_threshold_was_fitted_on(options, count):
    evaluator = ByEye()
    evaluator.thresholds = replace(THRESHOLDS, sentences=2, strip=-1.0)
    kept = refined([passage("four", 0.4, 0.3, 0.2, 0.1)], evaluator, top_n=None, **options)
    assert len(kept.excerpts) == count
    assert kept.details["sentences"] == options.get("sentences", 2)
