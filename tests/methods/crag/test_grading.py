"""Evaluators: what may stand for one, and which thresholds belong to it."""

import asyncio

import pytest
from by_eye import THRESHOLDS, ByEye, passage

from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.flow import arun, run
from fitrag_integrations.methods import defaults as _defaults
from fitrag_integrations.methods.crag.evaluator import (
    PAPERS_EVALUATOR,
    PRESETS,
    ActionThresholds,
    evaluate_port,
    grade,
    thresholds_of,
)
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.ports import port_of
from fitrag_integrations.types import BiLabelScore, Excerpt

WHOLES = [Excerpt.whole(passage("a", 0.25)), Excerpt.whole(passage("b", -0.5))]
ANY = ActionThresholds(0.1, -0.1)


class Labels:
    """A bi-label scorer, which is no evaluator."""

    def score(self, pairs):
        return [BiLabelScore(0.75, 0.0) for _ in pairs]


class LabelsAsync(Labels):
    async def ascore(self, pairs):
        return [BiLabelScore(0.25) for _ in pairs]


def graded(evaluator):
    return [e.score for e in run(grade("q", WHOLES, evaluate_port(evaluator))).value]


def test_an_evaluator_is_an_object_a_callable_or_a_port():
    eye = ByEye()
    for evaluator in (eye, eye.evaluate, port_of("mine", eye, "evaluate")):
        assert graded(evaluator) == [0.25, -0.5]
    assert len(eye.asks) == 3
    assert eye.asks[0][0] == ("q", "Fact 0 of a is <0.25>.")


def test_a_scorer_is_seen_through_as_an_evaluator():
    assert graded(Labels()) == [0.5, 0.5]
    flow = grade("q", WHOLES, evaluate_port(LabelsAsync()))
    assert [e.score for e in asyncio.run(arun(flow)).value] == [-0.5, -0.5]
    labels = Labels()
    assert evaluate_port(labels) == evaluate_port(labels) != evaluate_port(Labels())


@pytest.mark.parametrize("answer", [float("nan"), 1.5, -2, "0.5", None])
def test_what_is_no_grade_is_refused(answer):
    flow = grade("q", WHOLES, evaluate_port(lambda pairs: [answer for _ in pairs]))
    with pytest.raises(InputError, match="grade` must be"):
        _ = run(flow).value


def test_thresholds_are_those_given_or_the_evaluators_own():
    assert thresholds_of(ByEye()) is THRESHOLDS
    assert thresholds_of(ByEye(), ANY) is ANY
    assert Refiner(ByEye()).limit() == -0.2
    assert Refiner(Labels()).limit() == -0.5
    with pytest.raises(InputError, match=r"thresholds` must be .*fitrag calibrate evaluator"):
        thresholds_of(Labels())
    with pytest.raises(InputError, match="thresholds` must be"):
        thresholds_of(ByEye(), 0.5)


def test_thresholds_of_another_evaluator_are_refused():
    for evaluator in (ByEye(), Labels(), ByEye().evaluate, port_of("p", ByEye(), "evaluate")):
        with pytest.raises(ThresholdMismatchError, match="were fitted for 'Mindie.CRAG-Evaluator"):
            thresholds_of(evaluator, "popqa")
        found = thresholds_of(evaluator, "popqa", allow_other_model=True)
        assert found is PRESETS["popqa"]
    papers = ByEye()
    papers.name = PAPERS_EVALUATOR
    assert thresholds_of(papers, "arc") is PRESETS["arc"]


def test_its_own_thresholds_may_be_another_ones_too():
    stranger = ByEye()
    stranger.name = "retrained"
    with pytest.raises(ThresholdMismatchError, match="fitted for 'by-eye', given 'retrained'"):
        thresholds_of(stranger)
    nameless = ByEye()
    nameless.name = None
    assert thresholds_of(nameless) is THRESHOLDS, "they came with it"
    assert thresholds_of(nameless, THRESHOLDS) is THRESHOLDS


@pytest.fixture
def embedded(monkeypatch):
    """Put a home for the evaluator where the models would be loaded from."""
    loaded = []

    class Home(ByEye):
        @classmethod
        def embedded(cls):
            loaded.append(cls())
            return loaded[0]

        async def aevaluate(self, pairs):
            return self.evaluate(pairs)

    monkeypatch.setattr(_defaults, "kind_of", lambda role: Home)
    monkeypatch.setattr(_defaults, "_loaded", {})
    return loaded


def test_the_embedded_evaluators_thresholds_load_it_where_they_are_needed(embedded):
    assert thresholds_of(None, ANY) is ANY
    assert embedded == []
    with pytest.raises(ThresholdMismatchError, match="given 'by-eye'"):
        thresholds_of(None, "popqa")
    assert thresholds_of() is THRESHOLDS
    assert Refiner().limit() == -0.2
