"""A bi-label scorer trained on from an evaluator: where it starts, what is kept, what it learns."""

import math
from dataclasses import replace

import pytest
import torch
from training_rows import JUDGED_PAIRS as PAIRS
from training_rows import judged_rows

from fitrag_integrations.errors import TrainingError
from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, adapt, fit_evaluator
from fitrag_integrations.training.losses import list_loss
from scripts.span_scorer import (
    Preferred,
    SpanPlan,
    _joined,
    _start,
    calibrated,
    fit_span_scorer,
    save_span_scorer,
)

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory, bert):
    folder = tmp_path_factory.mktemp("evaluator")
    fit_evaluator(judged_rows(), folder, EvaluatorPlan(bert, "tiny", 4, 4, 3, 5e-3, 13, False))
    return folder


def plan_for(evaluator, **changes):
    return SpanPlan(base=str(evaluator), rank=2, steps=2, questions=2, bfloat16=False, **changes)


def preferred_rows():
    return [Preferred(row, row.holds) for row in judged_rows()]


def test_it_starts_as_the_evaluator(evaluator, tmp_path):
    plan = plan_for(evaluator)
    module = _start(evaluator)
    adapt(module.trunk, plan.rank)
    save_span_scorer(module, tmp_path, plan)
    scores = BiLabelScorer.from_pretrained(tmp_path, device="cpu").score(PAIRS)
    grades = RetrievalEvaluator.from_pretrained(evaluator, device="cpu").evaluate(PAIRS)
    assert [2 * s.has_answer - 1 for s in scores] == pytest.approx(grades, abs=2e-3)
    assert all(s.llm_prefer < s.has_answer for s in scores)


def test_a_trained_one_loads_and_saves(evaluator, tmp_path):
    fit_span_scorer(preferred_rows(), tmp_path / "made", plan_for(evaluator, rate=1e-2))
    made = BiLabelScorer.from_pretrained(tmp_path / "made", device="cpu")
    made.save_pretrained(tmp_path / "again")
    again = BiLabelScorer.from_pretrained(tmp_path / "again", device="cpu")
    for one, other in zip(made.score(PAIRS), again.score(PAIRS), strict=True):
        assert one.has_answer == pytest.approx(other.has_answer, abs=2e-2)
        assert 0.0 <= one.llm_prefer <= 1.0


def test_more_steps_fit_better(evaluator, tmp_path):
    plan = replace(plan_for(evaluator), steps=60, rate=1e-2, kept=1.0)
    fit_span_scorer(preferred_rows(), tmp_path, plan)
    scores = BiLabelScorer.from_pretrained(tmp_path, device="cpu").score(PAIRS)
    holds = [flag for row in judged_rows() for flag in row.holds]
    right = [s.has_answer for s, flag in zip(scores, holds, strict=True) if flag]
    wrong = [s.has_answer for s, flag in zip(scores, holds, strict=True) if not flag]
    assert sum(right) / len(right) > sum(wrong) / len(wrong) + 0.3


def test_what_is_not_kept_is_the_evaluators_encoder(evaluator, tmp_path):
    states = []
    for kept in (1e-9, 1.0):
        plan = replace(plan_for(evaluator), steps=5, rate=1e-1, kept=kept)
        fit_span_scorer(preferred_rows(), tmp_path / str(kept), plan)
        made = BiLabelScorer.from_pretrained(tmp_path / str(kept), device="cpu")
        states.append([p.detach().clone() for p in made._engine.trunk.parameters()])
    grader = RetrievalEvaluator.from_pretrained(evaluator, device="cpu")._grader
    before = [p.detach() for p in grader._engine.trunk.parameters()]
    far = [max(float((a - b).abs().max()) for a, b in zip(s, before, strict=True)) for s in states]
    assert far[0] < 1e-3 < far[1]


def test_joined_adapters_add_up():
    torch.manual_seed(0)
    first = {"l.A": torch.randn(2, 5), "l.B": torch.randn(4, 2)}
    second = {"l.A": torch.randn(3, 5), "l.B": torch.randn(4, 3), "m.A": torch.ones(1, 5)}
    both = _joined(first, second)
    expected = first["l.B"] @ first["l.A"] + second["l.B"] @ second["l.A"]
    torch.testing.assert_close(both["l.B"] @ both["l.A"], expected)
    assert torch.equal(both["m.A"], second["m.A"])


def test_the_list_loss_by_hand():
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    gold = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    first = -math.log(math.e / (math.e + 1))  # of llm_prefer the first list has no positive
    assert float(list_loss(logits, gold, [2, 1])) == pytest.approx(first)
    assert float(list_loss(logits[2:], gold[2:], [1])) == 0.0


def test_calibration_finds_temperature_and_shift():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(20000, generator=generator) * 3
    chances = (logits / 2.0 - 0.5).sigmoid()
    labels = torch.bernoulli(chances, generator=generator).int().tolist()
    found = calibrated(logits.tolist(), labels)
    assert found.temperature == pytest.approx(2.0, rel=0.05)
    assert found.shift == pytest.approx(-0.5, abs=0.05)
    with pytest.raises(TrainingError, match="do not follow"):
        calibrated(logits.tolist(), [1 - label for label in labels])
