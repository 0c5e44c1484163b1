"""`fitrag train bilabel`: what is held out, what is kept, what a run remembers, what is drawn."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny import tokenizer_of
from training_rows import labelled_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.training.bilabel.fit import BilabelPlan
from fitrag_integrations.training.bilabel.module import BiLabelModule, Lists
from fitrag_integrations.training.rows import (
    labelled_json,
    labelled_row,
    refuse_shared,
    write_jsonl,
)

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
ROWS = labelled_rows()


@pytest.fixture
def train(bert, tmp_path):
    """Give a function that runs the command on the toy rows with some options."""
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, ROWS))

    def run(options, rows="rows.jsonl"):
        files = [str(tmp_path / rows), "--out", str(tmp_path / "model"), "--base", bert]
        words = options.format(here=tmp_path).split()
        usual = ["--no-bfloat16", "--no-evidence", "--device", "cpu"]
        return CliRunner().invoke(app, ["train", "bilabel", *files, *usual, *words])

    return run


def test_a_question_on_both_sides_is_named(train, tmp_path):
    again = replace(ROWS[3], question=f"  {ROWS[3].question.upper()} ")
    write_jsonl(tmp_path / "held.jsonl", map(labelled_json, [again]))
    done = train("--validation {here}/held.jsonl")
    assert isinstance(done.exception, InputError)
    assert "IN WHAT YEAR IS THE FILM EMMA" in str(done.exception)
    assert "not trained on; 1 of them" in str(done.exception)
    assert not (tmp_path / "model").exists()
    refuse_shared(ROWS[:3], ROWS[3:])


def test_rows_that_teach_nothing_are_left_out_and_told(train, tmp_path):
    none = {"question": "who", "passages": []}
    error = {"question": "who", "error": "answers` must be"}
    write_jsonl(tmp_path / "rows.jsonl", [*map(labelled_json, ROWS), none, error, error])
    done = train("--tune head --steps 2 --validation 0.3")
    assert done.exit_code == 0, done.output
    assert "2 error rows left out\n1 rows without passages left out\n" in done.stderr
    unknown = {"question": "q", "passages": [{"text": "x", "has_answer": 1, "llm_prefer": None}]}
    assert labelled_row(unknown).llm_prefer == (None,)


def test_the_best_weights_are_kept_and_used(train, tmp_path):
    wrong = [flipped(row) for row in ROWS[6:]]  # what is learnt is wrong of what is held out
    write_jsonl(tmp_path / "train.jsonl", map(labelled_json, ROWS[:6]))
    write_jsonl(tmp_path / "held.jsonl", map(labelled_json, wrong))
    usual = (
        "--steps 6 --questions 3 --validation {here}/held.jsonl --tune full --learning-rate 0.02"
    )
    done = train(f"{usual} --evaluate-every 2", "train.jsonl")
    assert done.exit_code == 0, done.output
    run = tmp_path / "model" / "run"
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    found = {row["step"]: row["eval_loss"] for row in rows if "eval_loss" in row}
    assert found.keys() == {2, 4, 6}
    assert (first := min(found, key=found.get)) != 6  # else the test shows nothing
    best, last = (load_file(run / f"checkpoint-{at}" / "model.safetensors") for at in (first, 6))
    scorer = BiLabelScorer.from_pretrained(tmp_path / "model", device="cpu")
    assert torch.equal(scorer._head.out.weight, best["head.out.weight"])
    assert not torch.equal(best["head.out.weight"], last["head.out.weight"])


def flipped(row):
    has, prefer = (tuple(1 - mark for mark in marks) for marks in (row.has_answer, row.llm_prefer))
    return replace(row, has_answer=has, llm_prefer=prefer)


def test_a_run_goes_on_only_with_what_it_was_begun_with(train, tmp_path):
    usual = "--steps 2 --questions 3 --validation 0.3"
    assert train(f"{usual} --save-seconds 0").exit_code == 0
    other = train(f"{usual} --learning-rate 0.1")
    assert isinstance(other.exception, InputError)
    assert "rate` must be 0.0003, with which the run" in str(other.exception)
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, reversed(ROWS)))
    assert "rows` must be" in str(train(usual).exception)
    assert "accumulate` must be" in str(train(f"{usual} --gradient-accumulation-steps 2").exception)


@torch.no_grad()
def test_passes_stay_under_the_budget_and_questions_whole(bert):
    trunk, _ = load_base(bert)
    head, tokenizer = BiLabelHead(trunk.width), tokenizer_of(bert)
    plain = BiLabelModule(trunk, head, tokenizer).eval()
    tight = BiLabelModule(trunk, head, tokenizer, batch_tokens=120).eval()
    seen = []
    trunk.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape))
    batch = Lists(ROWS, tokenizer).encoded(range(len(ROWS)))
    found, expected = tight(batch), plain(batch)
    sizes = [rows * width for rows, width in seen[:-2]]
    assert len(sizes) > 4 and max(sizes) <= 120 and sum(rows for rows, _ in seen[:-2]) == 30
    assert {k: float(v) for k, v in found.items()} == pytest.approx(
        {k: float(v) for k, v in expected.items()}, abs=1e-5
    )


def test_a_head_may_be_fitted_by_sgd(train, tmp_path):
    weights = []
    for momentum in (None, 0.0, 0.9):
        how = "" if momentum is None else f" --optimizer sgd --momentum {momentum}"
        done = train(f"--tune head --steps 4 --learning-rate 0.1 --validation 0.3{how}")
        assert done.exit_code == 0, done.output
        scorer = BiLabelScorer.from_pretrained(tmp_path / "model", device="cpu")
        weights.append(scorer._head.out.weight.detach().clone())
        shutil.rmtree(tmp_path / "model")
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])


@torch.no_grad()
def test_what_a_head_reads_is_computed_once_and_the_same(bert):
    trunk, _ = load_base(bert)
    given = Lists(ROWS, tokenizer_of(bert))
    module = BiLabelModule(trunk, BiLabelHead(trunk.width), tokenizer_of(bert)).eval()
    expected = [module.logits(given.encoded(places)) for places in ([3, 0], range(10))]
    passes = []
    given.compute_once(module)
    trunk.register_forward_pre_hook(lambda *_: passes.append(1))
    for places, logits in zip(([3, 0], range(10)), expected, strict=True):
        torch.testing.assert_close(module.logits(given.encoded(places)), logits)
    apart = given.apart().encoded([0, 4])
    torch.testing.assert_close(module.logits(apart), expected[1][[0, 4]])
    assert not passes


PLAN = BilabelPlan("", "lora", 4, 3, 1e-2, 0, False, 0.3, 13, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"tune": "some"},
        {"optimizer": "adam"},
        {"momentum": 1.0},
        {"accumulate": 0},
        {"batch_tokens": 0},
        {"questions": 0},
        {"evaluate_every": -1},
    ],
)
def test_plans_that_make_no_sense_are_refused(changes):
    with pytest.raises(InputError, match=f"{next(iter(changes))}` must be"):
        replace(PLAN, **changes)
