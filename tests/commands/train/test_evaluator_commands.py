"""`fitrag label`, `train` and `calibrate evaluator`, from files to files; and what is fitted."""

import json

import pytest
from training_rows import judged_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.core.files import lock
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.thresholds.fits import GradedStrip, fit_actions, fit_strip
from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.training.rows import judged_json, judged_row, read_jsonl, write_jsonl

pytest.importorskip("bm25s")
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


RETRIEVED = {
    "question": "who wrote it",
    "answers": ["Ann"],
    "title": "The film",
    "passage": {"title": "The film", "text": "Ann  wrote it."},
    "passages": [
        {"title": "the  FILM", "text": "Nobody did."},
        {"title": "Other", "text": "Ann wrote it."},
        {"title": "Other", "text": "Anna did. Hannah, too."},
        {"title": "Ann", "text": "Rain."},
    ],
}


@pytest.mark.parametrize(
    ("signal", "holds"),
    [("answer", (0, 1, 0, 1)), ("title", (1, 0, 0, 0)), ("passage", (0, 1, 0, 0))],
)
def test_each_signal(signal, holds, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [RETRIEVED])
    out = tmp_path / "out.jsonl"
    done = run("label", "evaluator", tmp_path / "rows.jsonl", "--out", out, "--signal", signal)
    assert done.exit_code == 0 and "1 questions, 1 with a right passage" in done.stderr
    (row,) = map(judged_row, read_jsonl(out))
    assert row.holds == holds and row.answers == ("Ann",)


def test_the_options_stand_beside_the_rows_and_two_runs_do_not_write_one_file(tmp_path):
    out = tmp_path / "out.jsonl"
    write_jsonl(tmp_path / "rows.jsonl", [RETRIEVED])
    told = ("label", "evaluator", tmp_path / "rows.jsonl", "--out", out)
    assert run(*told, "--depth", 2).exit_code == 0
    beside = tmp_path / "out.jsonl.settings"
    assert json.loads(beside.read_text()) == {"verb": "label evaluator", "depth": 2}
    before = out.read_bytes()
    with beside.open() as file:
        lock(file.fileno(), out)
        done = run(*told)
    assert "no other run is writing" in str(done.exception) and out.read_bytes() == before


def test_popqas_rows_are_labelled_by_the_title_of_their_subject(tmp_path):
    row = {"question": "In what lake is Mainau?", "possible_answers": '["Bodensee"]'}
    write_jsonl(tmp_path / "popqa.jsonl", [{**row, "s_wiki_title": "Mainau"}])
    pool = [
        {"title": "mainau", "text": "An island in a lake."},
        {"title": "Lake", "text": "Mainau is in Bodensee."},
    ]
    write_jsonl(tmp_path / "pool.jsonl", pool)
    out = tmp_path / "out.jsonl"
    how = ("--format", "popqa", "--signal", "title", "--pool", tmp_path / "pool.jsonl")
    done = run("label", "evaluator", tmp_path / "popqa.jsonl", "--out", out, *how)
    assert done.exit_code == 0, done.output
    (judged,) = map(judged_row, read_jsonl(out))
    assert {p.title: h for p, h in zip(judged.passages, judged.holds, strict=True)} == {
        "mainau": 1,
        "Lake": 0,
    }


def test_train_then_calibrate(bert, tmp_path):
    rows = tmp_path / "rows.jsonl"
    write_jsonl(rows, map(judged_json, judged_rows()))
    made = tmp_path / "made"
    small = ("--base", bert, "--steps", 3, "--questions", 4, "--rank", 2, "--no-bfloat16")
    done = run("train", "evaluator", rows, "--out", made, *small)
    assert done.exit_code == 0, done.output
    assert RetrievalEvaluator.from_pretrained(made, device="cpu").thresholds is None
    empty = [
        judged_row(judged_json(row) | {"passages": [judged_json(row)["passages"][1]]})
        for row in judged_rows()
    ]
    write_jsonl(tmp_path / "held.jsonl", map(judged_json, [*judged_rows(), *empty]))
    done = run("calibrate", "evaluator", tmp_path / "held.jsonl", "--model", made)
    assert done.exit_code == 0 and "upper" in done.stderr, done.output
    fitted = RetrievalEvaluator.from_pretrained(made, device="cpu").thresholds
    assert fitted.model == "made" and -1 <= fitted.lower <= fitted.upper <= 1


TEN = [-0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9], (0, 0, 0, 1, 0, 1, 0, 1, 1, 1)


@pytest.mark.parametrize(
    ("rows", "sure", "expected"),
    [
        (TEN, (1.0, 1.0), (0.4, -0.4)),
        # from 0.0 on 4 of 5 are answered, from -0.2 on 4 of 6; below 0.0 one of 5 is
        (TEN, (0.8, 0.8), (0.0, 0.0)),
        (TEN, (0.9, 0.8), (0.4, 0.0)),
        (([-0.9, -0.7, 0.7, 0.9], (0, 0, 1, 1)), (0.6, 0.6), (0.0, 0.0)),  # the two cross
        (([0.1, 0.2, 0.3, 0.4], (1, 0, 1, 0)), (0.99, 0.99), (1.0, -1.0)),  # nothing reaches it
    ],
)
def test_actions_as_sure_as_asked(rows, sure, expected):
    best, holds = rows
    found = fit_actions(best, list(map(bool, holds)), correct=sure[0], incorrect=sure[1])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("holds", [[True, True], [False, False], [True]])
def test_questions_of_one_kind_are_refused(holds):
    with pytest.raises(InputError, match="rows"):
        fit_actions([0.1, 0.2], holds, correct=0.9, incorrect=0.9)


def test_strips_keep_the_answer_as_often_as_asked():
    def row(right, wrong):
        return [GradedStrip(right, 10, True), GradedStrip(wrong, 30, False)]

    rows = [row(0.5, -0.5), row(0.1, 0.0), row(-0.4, 0.2), row(0.8, 0.3)]
    threshold, survived, kept = fit_strip(rows, survival=1.0, top_n=5)
    assert (threshold, survived) == (-0.4, 1.0)
    assert kept == pytest.approx((10 + 40 + 40 + 40) / 160)
    threshold, survived, kept = fit_strip(rows, survival=0.75, top_n=5)
    assert survived == 0.75 and threshold == pytest.approx(0.995)  # the best one is always kept
    assert kept == pytest.approx((10 + 10 + 30 + 10) / 160)
    assert fit_strip(rows, survival=1.0, top_n=1)[1] == 0.75  # as good as it gets
    with pytest.raises(InputError, match="rows"):
        fit_strip([[GradedStrip(0.1, 10, False)]], survival=0.9, top_n=5)
