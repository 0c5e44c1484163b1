"""The gate of the notebooks: right about facts shown often against never."""

import json
from statistics import fmean

import pytest
from closed_book import GATE, LLM

from fitrag_integrations.errors import ThresholdMismatchError
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.models import IKClassifier
from fitrag_integrations.ports import Gate

NAME = "fitrag-closed-book"


@pytest.fixture(scope="module")
def gate():
    made = IKClassifier.from_pretrained(GATE, device="cpu")
    yield made
    made.unload()


def asked(shown, count=24):
    """Give questions that were not trained on, about facts shown so often."""
    lines = (LLM / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    chosen = [r["question"] for r in rows if r["shown"] == shown and r["split"] == "test"]
    return chosen[:: len(chosen) // count][:count]


@pytest.mark.parametrize("drafted", [True, False], ids=["32 tokens", "question alone"])
def test_facts_shown_often_are_known(gate, drafted):
    means = {}
    for shown in (0, 64):
        questions = asked(shown)
        drafts = [d.text if drafted else "" for d in gate.drafter.draft(questions)]
        scores = gate.p_known(questions, drafts)
        assert len(scores) == 24 and all(0.0 <= score <= 1.0 for score in scores)
        means[shown] = fmean(scores)
    assert means[64] - means[0] > 0.4


def test_the_threshold_is_for_its_model(gate):
    assert isinstance(gate, Gate)
    assert gate.fitted is not None and gate.fitted.model == gate.model_name == NAME
    assert gate.fitted.low < gate.threshold == gate.fitted.value < gate.fitted.high
    assert gate.drafter.name == NAME and gate.draft_tokens == 32
    with pytest.raises(ThresholdMismatchError, match=NAME):
        IKClassifier.from_pretrained(GATE, device="cpu", for_model="some-other-model")


def test_it_decides_with_its_own_drafter(gate):
    decider = Decider(gate)
    often, never = (
        [traced.value.decision.retrieve for traced in run_many(map(decider, asked(shown)))]
        for shown in (64, 0)
    )
    assert sum(often) <= 4 and sum(never) >= 14
