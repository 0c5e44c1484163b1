"""Judged rows, their losses against hand-computed numbers, and a few steps to a loadable folder."""

import math
from dataclasses import replace

import pytest
import torch
from training_rows import JUDGED_PAIRS as PAIRS
from training_rows import judged_rows, last_weights, reading_rows

from fitrag_integrations.errors import InputError
from fitrag_integrations.models import ExtractiveReader, RetrievalEvaluator
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, _start, fit_evaluator
from fitrag_integrations.training.evaluator.module import EvaluatorModule, gold_spans, losses
from fitrag_integrations.training.losses import span_or_nowhere_loss
from fitrag_integrations.training.reader import ReaderPlan, fit_reader

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
PLAN = EvaluatorPlan("", "tiny", 4, 4, 3, 5e-3, 13, False)


def log_sigmoid(x):
    return -math.log(1 + math.exp(-x))


def test_losses_by_hand():
    logits, holds = torch.tensor([2.0, -1.0, 0.5, 1.0]), torch.tensor([1.0, 0.0, 0.0, 0.0])
    got = losses(logits, holds, [2, 2])
    pair = -(log_sigmoid(2) + log_sigmoid(1) + log_sigmoid(-0.5) + log_sigmoid(-1)) / 4
    assert float(got["pair"]) == pytest.approx(pair, abs=1e-6)
    question = -(log_sigmoid(2) + log_sigmoid(-1)) / 2  # the best passages: right, and not
    assert float(got["question"]) == pytest.approx(0.5 * question, abs=1e-6)
    rank = -math.log(math.exp(2) / (math.exp(2) + math.exp(-1)))  # the second list has no right one
    assert float(got["rank"]) == pytest.approx(0.3 * rank, abs=1e-6)
    assert float(losses(torch.tensor([1.0, 2.0]), torch.ones(2), [1, 1])["rank"]) == 0.0


def test_span_loss_by_hand():
    scores = torch.tensor([[0.0, 1.0], [2.0, 0.0]])  # tokens by (start, end), and nowhere at 0
    start = math.log(1 + math.exp(0) + math.exp(2))
    end = math.log(1 + math.exp(1) + math.exp(0))
    assert float(span_or_nowhere_loss([scores], [[(1, 1)]])) == pytest.approx(
        (start - 2 + end - 0) / 2
    )
    assert float(span_or_nowhere_loss([scores], [[]])) == pytest.approx((start + end) / 2)
    assert float(span_or_nowhere_loss([scores], [None])) == 0.0


def module_of(base, rows, rank=0):
    return _start(rows, replace(PLAN, base=base, rank=rank))[0]


def test_golds_are_the_answers_tokens(base):
    (row,) = judged_rows()[:1]
    module = module_of(base, [row])
    encoded = module.encoded([row])
    found = [*gold_spans([row], encoded)]
    assert found[1:] == [[], []]
    ((first, last),) = found[0]
    spans = encoded[0].offsets
    assert row.passages[0].text[spans[first][0] : spans[last][1]] == row.answers[0]
    assert [*gold_spans([replace(row, answers=("no such words",))], encoded)][0] is None


def test_a_modules_logits_are_in_order(bert):
    rows = judged_rows()
    module = module_of(bert, rows).eval()
    encoded = module.encoded(rows)
    whole, _ = module.logits(encoded)
    alone = torch.cat([module.logits([pair])[0] for pair in encoded])
    torch.testing.assert_close(whole, alone, atol=1e-5, rtol=1e-5)
    assert isinstance(module, EvaluatorModule) and set(module(rows)) == {
        "pair",
        "question",
        "rank",
        "span",
    }


@pytest.mark.parametrize("rank", [0, 4])
def test_a_fitted_evaluator_is_the_one_that_was_saved(base, rank, tmp_path):
    fit_evaluator(judged_rows(), tmp_path, replace(PLAN, base=base, rank=rank))
    made = RetrievalEvaluator.from_pretrained(tmp_path, device="cpu")
    assert made.name == "tiny" and made.thresholds is None
    saved = _trained(tmp_path, base, rank)
    expected = [math.tanh(logit / 2) for logit in saved]
    assert made.evaluate(PAIRS) == pytest.approx(expected, abs=2e-2)  # adapters in float16
    made.save_pretrained(tmp_path / "again")
    again = RetrievalEvaluator.from_pretrained(tmp_path / "again", device="cpu")
    assert again.evaluate(PAIRS) == pytest.approx(expected, abs=2e-2)  # float16 layers


def _trained(folder, base, rank):
    """Compute the logits from the float32 weights of the run's last step."""

    module = module_of(base, judged_rows(), rank).eval()
    named = dict(module.named_parameters())
    state = last_weights(folder)
    with torch.no_grad():
        for name, weight in state.items():
            if name in named:
                named[name].copy_(weight)
        return module.logits(module.encoded(judged_rows()))[0].tolist()


def test_it_may_start_from_a_reader(bert, tmp_path):
    plan = ReaderPlan(bert, 2, 4, 1, 20, 5e-3, 13, False)
    fit_reader(reading_rows(), tmp_path / "reader", plan)
    start = replace(PLAN, base=str(tmp_path / "reader"), rate=0.0)
    fit_evaluator(judged_rows(), tmp_path / "made", start)
    torch.manual_seed(start.seed)
    module = _start(judged_rows(), start)[0].eval()
    with torch.no_grad():
        logits = module.logits(module.encoded(judged_rows()))[0].tolist()
    made = RetrievalEvaluator.from_pretrained(tmp_path / "made", device="cpu")
    assert made.evaluate(PAIRS) == pytest.approx([math.tanh(x / 2) for x in logits], abs=2e-2)

    reader = ExtractiveReader.from_pretrained(tmp_path / "reader", device="cpu")
    torch.testing.assert_close(made._grader._head.span.weight, reader._head.span.weight)


def test_no_rows_are_refused(bert, tmp_path):
    with pytest.raises(InputError, match="rows` must be at least one"):
        fit_evaluator([], tmp_path, replace(PLAN, base=bert))
