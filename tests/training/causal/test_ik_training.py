"""From labelled rows to an IK classifier: a toy is learnt, files load."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_causal import write_gpt2, write_llama
from toy_known import toy_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError, MissingExtraError, ModelLoadError
from fitrag_integrations.models import IKClassifier
from fitrag_integrations.training.causal import adapter as causal_training
from fitrag_integrations.training.causal.adapter import (
    AdapterPlan,
    CausalModule,
    Example,
    fit_words,
    own_engine,
)
from fitrag_integrations.training.causal.ik import IKPlan, fit_ik
from fitrag_integrations.training.rows import known_rows, read_jsonl, split_rows, write_jsonl

LORA = {"epochs": 8.0, "rate": 1e-2, "rank": 8, "alpha": 16, "dropout": 0.0, "batch": 8}
HEAD = {"variant": "head", "epochs": 12.0, "rate": 5e-3}
FULL = {"variant": "full", "epochs": 6.0, "rate": 3e-3, "batch": 8}
PLANS = {"lora": LORA, "head": HEAD, "full": FULL}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("base") / "little")


def plan(base, **changes):
    return IKPlan(**{"base": base, "draft_tokens": 8, "validation": 0.3, **changes})


@pytest.fixture(scope="module", params=PLANS)
def fitted(request, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("fitted") / request.param
    return out, fit_ik(toy_rows(), out, plan(base, **PLANS[request.param]))


def test_a_separable_toy_is_learnt(fitted):
    out, figures = fitted
    assert figures["8 tokens AUC"] > 0.9 and figures["8 tokens accuracy"] > 0.8
    assert figures["8 tokens AUC"] > figures["0 tokens AUC"]
    log = [json.loads(line) for line in (out / "run" / "log.jsonl").read_text().splitlines()]
    held = [row["eval_loss"] for row in log if "eval_loss" in row]
    assert len(held) >= 10 and min(held) < 0.8 * held[0]


def test_what_was_fitted_loads_and_judges(fitted, base):
    out, figures = fitted
    gate = IKClassifier.from_pretrained(out, device="cpu", for_model="little")
    assert (gate.model_name, gate.threshold, gate.fitted) == ("little", 0.5, None)
    manifest = json.loads((out / "model.json").read_text())
    assert len(manifest["temperatures"]) == 2 and all(t > 0 for t in manifest["temperatures"])
    assert manifest["trained"]["rows"] == 120 and manifest["trained"]["base"] == "little"
    fresh = toy_rows(40, seed=99)
    scores = gate.p_known([row["question"] for row in fresh], [row["draft"] for row in fresh])
    known = [score for score, row in zip(scores, fresh, strict=True) if row["known"]]
    unknown = [score for score, row in zip(scores, fresh, strict=True) if not row["known"]]
    assert sum(k > u for k in known for u in unknown) > 0.9 * len(known) * len(unknown)


def test_the_best_checkpoint_is_the_one_saved(fitted):
    out, _ = fitted
    last = max(out.glob("run/checkpoint-*"), key=lambda path: int(path.name[11:]))
    chosen = json.loads((last / "trainer_state.json").read_text())
    best = load_file(Path(chosen["best_model_checkpoint"]) / "model.safetensors")
    manifest = json.loads((out / "model.json").read_text())
    if manifest["variant"] == "full":
        whole = load_file(out / "base" / "model.safetensors")
        assert all(torch.equal(best[f"model.{name}"], tensor) for name, tensor in whole.items())
        return
    saved = load_file(out / manifest["weights"]["file"])
    if manifest["variant"] == "head":
        assert torch.equal(saved["out.weight"], best["head.out.weight"])
        return
    for name, tensor in saved.items():
        inner = name.removeprefix("base_model.model.").replace(".weight", ".adapter_1.weight")
        assert torch.equal(tensor, best[f"model.{inner}"])


def test_the_loss_is_cross_entropy_of_the_words(base):
    engine = own_engine(base)
    rows = [Example([3, 4, 5], [7, 8]), Example([9], [2])]
    with torch.no_grad():
        found = CausalModule(engine)(rows)["word"]
        first = engine.model(torch.tensor([[3, 4, 5, 7]])).logits[0].log_softmax(-1)
        second = engine.model(torch.tensor([[9]])).logits[0].log_softmax(-1)
    expected = -((first[2, 7] + first[3, 8]) / 2 + second[0, 2]) / 2
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    engine.release()


def test_questions_are_held_out_by_their_text():
    failed = {"question": None, "known": None, "error": {"message": "no"}}
    rows = known_rows([*toy_rows(), failed, *toy_rows()])
    train, held = split_rows(rows, validation=0.3, seed=13)
    assert len(train) + len(held) == 240 and 40 < len(held) < 110
    assert not {row.question for row in train} & {row.question for row in held}
    assert split_rows(rows[::-1], validation=0.3, seed=13)[1] == held[::-1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"known": "yes"}, r"rows\[1\].known` must be true or false"),
        ({"known": None}, r"rows\[1\].known"),
        ({"question": " "}, r"rows\[1\].question"),
        ({"draft": 3}, r"rows\[1\].draft"),
    ],
)
def test_a_wrong_row_is_named(base, change, named, tmp_path):
    rows = toy_rows()
    rows[1] |= change
    with pytest.raises(InputError, match=named):
        fit_ik(rows, tmp_path, plan(base))


KNOWN = [row for row in toy_rows() if row["known"]]


@pytest.mark.parametrize(
    ("rows", "changes", "told"),
    [
        (KNOWN, {}, "known and unknown questions enough"),
        (toy_rows(), {"lengths": (0, 16)}, "lengths` must be .*from 0 to draft_tokens, 8"),
        (toy_rows(), {"variant": "whole"}, "--tune` must be one of lora, full, head"),
        (toy_rows(), {"base": "letters"}, "no single token for 'Yes'"),
    ],
    ids=["one kind", "lengths", "variant", "words"],
)
def test_what_cannot_be_trained_is_refused_before_training(base, rows, changes, told, tmp_path):
    write_llama(tmp_path / "letters", whole=False)
    base = tmp_path / changes["base"] if "base" in changes else base
    with pytest.raises((InputError, ModelLoadError), match=told):
        fit_ik(rows, tmp_path / "out", plan(**{**changes, "base": str(base)}))
    assert not (tmp_path / "out" / "run").exists()


def test_rows_of_two_models_need_a_name(base, tmp_path):
    rows = [*toy_rows(60), *toy_rows(60, seed=4, llm="big")]
    with pytest.raises(InputError, match="rows.llm` must be"):
        fit_ik(rows, tmp_path / "a", plan(base, **HEAD))
    fit_ik(rows, tmp_path / "b", plan(base, **{**HEAD, "epochs": 1.0}, model="both"))
    IKClassifier.from_pretrained(tmp_path / "b", device="cpu", for_model="both")


def test_blank_drafts_train_the_question_alone(tmp_path):
    rows = [{**row, "draft": " "} for row in toy_rows()]
    how = {**HEAD, "epochs": 2.0, "device_map": "auto", "device": "cpu"}
    figures = fit_ik(rows, tmp_path, plan(write_gpt2(tmp_path / "base"), **how))
    names = ("n", "known", "accuracy", "AUC", "ECE")
    assert set(figures) == {f"0 tokens {name}" for name in names}


def test_a_head_that_learns_nothing_gives_the_known_fraction(base, tmp_path):
    chance = random.Random(1)
    rows = [{**row, "known": chance.random() < 0.08} for row in toy_rows(160)]
    how = {**HEAD, "epochs": 0.01}
    figures = fit_ik(rows, tmp_path, plan(base, **how))
    n, known = figures["8 tokens n"], figures["8 tokens known"]
    assert n >= 30 and 0.0 < known < 0.2
    assert figures["8 tokens accuracy"] == pytest.approx(1.0 - known, abs=1e-4)
    gate = IKClassifier.from_pretrained(tmp_path, device="cpu")
    scores = gate.p_known([row["question"] for row in rows], [row["draft"] for row in rows])
    assert sum(scores) / len(scores) == pytest.approx(0.08, abs=0.06)


def test_train_ik_from_the_command_line(base, tmp_path):
    shutil.copytree(base, tmp_path / "home" / "little")
    write_jsonl(tmp_path / "rows.jsonl.gz", toy_rows())
    arguments = ["train", "ik", tmp_path / "rows.jsonl.gz", "--out", tmp_path / "home" / "ik"]
    arguments += ["--base", tmp_path / "home" / "little", "--tune", "head", "--epochs", 2]
    arguments += ["--length", 0, "--length", 8, "--draft-tokens", 8, "--validation", 0.3]
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0 and "8 tokens AUC" in done.stderr, done.output
    manifest = json.loads((tmp_path / "home" / "ik" / "model.json").read_text())
    assert manifest["base"] == "../little" and manifest["trained"]["lengths"] == [0, 8]
    (tmp_path / "home").rename(tmp_path / "moved")
    gate = IKClassifier.from_pretrained(tmp_path / "moved" / "ik", device="cpu")
    assert gate.p_known(["who?"], [""])
    assert list(read_jsonl(tmp_path / "rows.jsonl.gz")) == toy_rows()


def test_activations_computed_again_give_the_same_weights(base, tmp_path):
    """Dropout above 0: what is drawn again is what was drawn."""
    found = []
    for name in ("kept", "again"):
        how = {**LORA, "epochs": 1.0, "dropout": 0.3, "checkpointing": name == "again"}
        fit_ik(toy_rows(40), tmp_path / name, plan(base, **how))
        found.append(load_file(tmp_path / name / "adapter_model.safetensors"))
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, atol=1e-6, rtol=1e-5)


def test_a_base_in_four_bits_is_loaded_for_a_gpu(base, tmp_path, monkeypatch):
    asked = {}

    def load(source, **how):
        asked.update(how)
        raise InterruptedError

    pytest.importorskip("bitsandbytes")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    monkeypatch.setattr(causal_training, "load_causal", load)
    with pytest.raises(InterruptedError):
        own_engine(base, "cuda", four_bit=True, device_map="auto")
    how = asked["quantization_config"]
    assert (asked["dtype"], asked["device_map"]) == (torch.bfloat16, "auto")
    assert how.load_in_4bit and how.bnb_4bit_quant_type == "nf4"
    assert how.bnb_4bit_compute_dtype == torch.bfloat16


def test_what_four_bits_need_is_told(base, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="four_bit` must be .*where all weights are trained"):
        fit_words(None, None, tmp_path, AdapterPlan(four_bit=True), whole=True)
    with pytest.raises(InputError, match="four_bit` must be a GPU, where gradients"):
        own_engine(base, "cpu", four_bit=True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(MissingExtraError, match=r"a base in 4 bits: pip install .*quantize"):
        own_engine(base, "cuda", four_bit=True)
