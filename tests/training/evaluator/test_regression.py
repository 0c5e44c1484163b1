"""CRAG's own recipe: one output fitted to +1 and -1, saved as a checkpoint of transformers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import write_t5_classifier
from tiny_causal import write_llama
from training_rows import JUDGED_PAIRS, judged_rows, last_weights

from fitrag_integrations.errors import InputError
from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, fit_evaluator
from fitrag_integrations.training.evaluator.module import labelled_pairs, start_regression
from fitrag_integrations.training.trainer import Running

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
CPU = Running(device="cpu", log_every=1, save_seconds=0.0)
PAIRS = labelled_pairs(judged_rows())


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """Write a whole T5 with the dropout of .1 that the papers' have."""
    folder = write_t5_classifier(tmp_path_factory.mktemp("t5"))
    config = json.loads((Path(folder) / "config.json").read_text())
    assert config["dropout_rate"] == pytest.approx(0.1)
    return folder


def plan_for(base, **changes):
    plan = EvaluatorPlan(base=base, name="tiny", rank=4, steps=3, rate=1e-3, bfloat16=False)
    return replace(plan, **{"loss": "regression", "tune": "full", "batch": 4, **changes})


def test_the_loss_is_the_squared_error_from_plus_and_minus_one(t5):
    module = start_regression(t5, tune="full", rank=4, input_format="plain").eval()
    wanted = torch.tensor([1.0 if holds else -1.0 for *_, holds in PAIRS])
    with torch.no_grad():
        expected = ((module.outputs(PAIRS) - wanted) ** 2).mean()
        assert float(module(PAIRS)["error"]) == pytest.approx(float(expected))
    assert {1.0, -1.0} == set(wanted.tolist())


@pytest.mark.parametrize("tune", ["full", "lora", "head"])
@pytest.mark.parametrize("base", ["t5", "bert"])
def test_what_is_saved_is_what_was_trained(base, tune, tmp_path, request):
    plan = plan_for(request.getfixturevalue(base), tune=tune, bfloat16=tune == "lora")
    fit_evaluator(judged_rows(), tmp_path, plan, CPU)
    made = RetrievalEvaluator.from_pretrained(tmp_path, device="cpu")
    again = RetrievalEvaluator.from_pretrained(tmp_path, device="cpu")
    assert made.name == "tiny" and made.evaluate(JUDGED_PAIRS) == made.evaluate(JUDGED_PAIRS)
    assert again.evaluate(JUDGED_PAIRS) == pytest.approx(made.evaluate(JUDGED_PAIRS), abs=1e-6)
    state = last_weights(tmp_path)
    trained = state.keys()
    assert any("head" in name for name in trained)
    if tune != "full":
        assert all("lora_" in name or name.startswith("head") for name in trained)


@pytest.mark.parametrize(("tune", "pad"), [("full", True), ("lora", False)])
def test_a_decoder_is_fitted_at_its_last_token(tune, pad, tmp_path):
    base = write_llama(tmp_path / "base", pad=pad)
    fit_evaluator(judged_rows(), tmp_path / "out", plan_for(base, tune=tune), CPU)
    made = RetrievalEvaluator.from_pretrained(tmp_path / "out", device="cpu")
    grades = made.evaluate(JUDGED_PAIRS)
    alone = [made.evaluate([pair])[0] for pair in JUDGED_PAIRS]
    assert grades == pytest.approx(alone, abs=1e-5) and len(set(grades)) > 2


def test_a_decoder_without_any_token_to_pad_with_is_refused(tmp_path):
    base = write_llama(tmp_path, pad=False)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings.pop("eos_token")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="pad_token.*tokenizer_config.json"):
        start_regression(base, tune="full", rank=4, input_format="plain")


def test_more_steps_tell_right_from_wrong(t5, tmp_path):
    plan = plan_for(t5, epochs=16.0, batch=12, validation=0.3, evaluate_every=10)
    figures = fit_evaluator(judged_rows(), tmp_path, plan, CPU)
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    held = [row["eval_loss"] for row in rows if "eval_loss" in row]
    assert len(held) == 3 and rows[-2]["step"] == 28  # 7 questions of 3 pairs, 16 times, by twelve
    assert min(held) < 1.0 and {"pairs accuracy", "pairs AUC"} <= figures.keys()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"loss": "luck"}, "loss` must be"),
        ({"tune": "upper"}, "tune` must be"),
        ({"input_format": "bold"}, "input_format` must be"),
        ({"evaluate_every": 2}, "evaluate_every` must be"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes, named):
    with pytest.raises(InputError, match=named):
        plan_for("base", **changes)


@pytest.mark.parametrize("loss", ["lists", "regression"])
def test_activations_computed_again_give_the_same_evaluator(loss, t5, bert, tmp_path):
    found = []
    for again in (False, True):
        plan = plan_for(t5 if loss == "regression" else bert, loss=loss, checkpointing=again)
        fit_evaluator(judged_rows(), tmp_path / str(again), plan, CPU)
        found.append(
            load_file(
                tmp_path / str(again) / "run" / f"checkpoint-{plan.steps}" / "model.safetensors"
            )
        )
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, atol=1e-5, rtol=1e-3)
