"""A few steps from rows to a folder that loads, for both models, encoders and all tunings."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training_rows import labelled_rows, last_weights, reading_rows

from fitrag_integrations.errors import InputError
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel
from fitrag_integrations.training.reader import ReaderPlan, fit_reader
from fitrag_integrations.training.rows import Labelled, split

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
READER = ReaderPlan("", 6, 4, 2, 20, 5e-3, 13, False)
SCORER = BilabelPlan("", "head", 4, 3, 1e-2, 0, False, 0.3, 13, False)
PAIRS = [(row.question, passage) for row in labelled_rows() for passage in row.passages]


@pytest.fixture(scope="module")
def reader_folder(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted-reader")
    fit_reader(reading_rows(), folder, replace(READER, base=base))
    return folder


def parameters(model):
    return dict(model._engine.trunk.encoder.named_parameters())


def logits(scorer):
    scores = scorer.score(PAIRS)
    return [x for s in scores for x in (s.has_answer_logit, s.llm_prefer_logit)]


def fit(out, **changes):
    figures = fit_bilabel(labelled_rows(), out, replace(SCORER, **changes))
    return figures, BiLabelScorer.from_pretrained(out, device="cpu")


def test_a_fitted_reader_loads_and_reads(base, reader_folder):
    reader = ExtractiveReader.from_pretrained(reader_folder, device="cpu")
    for (_, passage), answer in zip(PAIRS, reader.read(PAIRS), strict=True):
        assert answer.text == passage.text[answer.start : answer.end] != ""
    before = dict(load_base(base)[0].encoder.named_parameters())
    for name, weight in parameters(reader).items():
        if "embed" in name or "shared" in name:
            assert torch.equal(weight, before[name])
    assert any(not torch.equal(w, before[name]) for name, w in parameters(reader).items())


@pytest.mark.parametrize(("tune", "evidence"), [("head", True), ("lora", True), ("full", False)])
def test_a_fitted_scorer_is_the_one_that_was_saved(base, tune, evidence, tmp_path):
    figures, scorer = fit(tmp_path, base=base, tune=tune, evidence=evidence, hidden=4 * evidence)
    told = ("accuracy", "AUC", "ECE", "n", "positive")
    assert figures.keys() == {f"{a} {b}" for a in ("has_answer", "llm_prefer") for b in told}
    assert all(0 <= value <= 1 for name, value in figures.items() if not name.endswith(" n"))
    assert scorer.manifest["trained"]["tune"] == tune
    if tune == "head":
        before = dict(load_base(base)[0].encoder.named_parameters())
        assert all(torch.equal(w, before[name]) for name, w in parameters(scorer).items())
        assert not (tmp_path / "encoder" / "tuned.safetensors").exists()
        return
    _assert_same_as_checkpoint(scorer, tmp_path, tune)
    scorer.save_pretrained(tmp_path / "twice")
    again = BiLabelScorer.from_pretrained(tmp_path / "twice", device="cpu")
    assert logits(again) == pytest.approx(logits(scorer), abs=2e-2)  # float16 or better


def _assert_same_as_checkpoint(scorer, folder, tune):
    """Compare with the float32 weights of the run's last step."""

    saved = last_weights(folder)
    assert torch.equal(saved["head.out.weight"], scorer._head.out.weight)
    if tune == "full":  # stored in float16, which keeps 1 part in 2048
        for name, weight in parameters(scorer).items():
            if f"trunk.encoder.{name}" in saved:
                given = saved[f"trunk.encoder.{name}"]
                torch.testing.assert_close(weight, given, rtol=2**-11, atol=2**-24)
        return
    factors = {n: w for n, w in saved.items() if "lora_B" in n}
    base = dict(load_base(scorer.manifest["base"])[0].encoder.named_parameters())
    assert factors
    for name, down in factors.items():
        layer = name.removeprefix("trunk.encoder.base_model.model.").partition(".lora_B")[0]
        change = 2 * down @ saved[name.replace("lora_B", "lora_A")]  # alpha over rank
        expected = base[f"{layer}.weight"] + change
        found = parameters(scorer)[f"{layer}.weight"]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_scorer_may_start_from_a_reader(base, reader_folder, tmp_path):
    _, scorer = fit(tmp_path, base=str(reader_folder), tune="lora", rate=0.0, evidence=True)
    assert json.loads((reader_folder / "model.json").read_text())["trained"]["rate"] == 5e-3
    reader = ExtractiveReader.from_pretrained(reader_folder, device="cpu")
    before = parameters(reader)
    assert scorer.manifest["base"] == base
    for name, weight in parameters(scorer).items():
        torch.testing.assert_close(weight, before[name], atol=1e-5, rtol=2**-11)


def test_bfloat16_trains_both(base, tmp_path):
    fit_reader(reading_rows(), tmp_path / "r", replace(READER, base=base, steps=2, bfloat16=True))
    assert ExtractiveReader.from_pretrained(tmp_path / "r", device="cpu").read(PAIRS[:1])
    _, scorer = fit(tmp_path / "s", base=base, tune="full", steps=2, bfloat16=True)
    assert scorer.score(PAIRS[:1])


def test_more_steps_fit_better(bert, tmp_path):
    from sklearn.metrics import roc_auc_score

    _, scorer = fit(tmp_path, base=bert, tune="full", steps=80, rate=2e-3)
    has = logits(scorer)[::2]
    rights, wrongs = has[::3], has[1::3]
    assert roc_auc_score([1] * 10 + [0] * 10, rights + wrongs) > 0.85


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2), st.floats(0.05, 0.95), st.integers(0, 9))
def test_a_question_in_training_is_not_held_out(questions, validation, seed):
    rows = [Labelled(question, (), (), ()) for question in questions]
    try:
        train, held = split(rows, validation, seed)
    except InputError:
        distinct = len(set(questions))
        assert round(validation * distinct) in (0, distinct)
        return
    assert not {row.question for row in train} & {row.question for row in held}
    assert len(train) + len(held) == len(rows) and train and held


@pytest.mark.parametrize("rows", [[], labelled_rows()[:1]])
def test_too_few_labelled_rows_are_refused(bert, rows, tmp_path):
    with pytest.raises(InputError, match="rows` must be enough questions"):
        fit_bilabel(rows, tmp_path, replace(SCORER, base=bert))
    with pytest.raises(InputError, match="rows` must be at least one"):
        fit_reader([], tmp_path, replace(READER, base=bert))


@pytest.mark.parametrize("prefer", [(1, 1, 1), (None, None, None)])
def test_a_label_of_one_kind_or_unknown_has_no_auc_but_a_scorer(bert, prefer, tmp_path):
    rows = [replace(row, llm_prefer=prefer) for row in labelled_rows()]
    figures = fit_bilabel(rows, tmp_path, replace(SCORER, base=bert, steps=1))
    assert "has_answer AUC" in figures and "llm_prefer AUC" not in figures
    assert BiLabelScorer.from_pretrained(tmp_path, device="cpu").score(PAIRS[:1])
