"""`fitrag label` and `fitrag train`, from files to files."""

import json
import re
from dataclasses import replace

import pytest
from tiny import make_reader, make_scorer
from training_rows import labelled_rows, reading_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.methods import method_from
from fitrag_integrations.methods.fitrag.recognizer import SelfKnowledgeRecognizer
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader
from fitrag_integrations.training.rows import (
    labelled_json,
    labelled_row,
    read_jsonl,
    reading_json,
    reading_row,
    write_jsonl,
)

pytest.importorskip("bm25s")
# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def rows(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl.gz", map(reading_json, reading_rows()))
    return tmp_path / "rows.jsonl.gz"


@pytest.fixture
def pool(tmp_path):
    passages = [p for row in reading_rows() for p in (row.passage, *row.negatives)]
    write_jsonl(tmp_path / "pool.jsonl", ({"title": p.title, "text": p.text} for p in passages))
    return tmp_path / "pool.jsonl"


def test_label_negatives(rows, pool, tmp_path):
    out = tmp_path / "mined.jsonl"
    done = run("label", "negatives", rows, "--out", out, "--pool", pool, "--keep", 3)
    assert done.exit_code == 0 and "10 rows, 50 negatives" in done.stderr
    mined = [reading_row(row) for row in read_jsonl(out)]
    assert [row.question for row in mined] == [row.question for row in reading_rows()]
    for row in mined:
        assert not any(contains_answer(f"{p.title} {p.text}", row.answers) for p in row.negatives)


@pytest.mark.parametrize(
    ("command", "row", "said"),
    [
        ("train reader", {"q": 1}, "bad.jsonl, row 2: `question` must be"),
        ("train onepass --reader r --scorer s", {"question": "Who?"}, "row 2: `passages` must be"),
        ("train evaluator", {"question": "Who?"}, "row 2: `passages` must be"),
        (
            "train reader",
            {"question": "?", "answers": 3, "passage": {}},
            "row 2: `answers` must be",
        ),
    ],
)
def test_wrong_rows_are_named(command, row, said, rows, tmp_path):
    good = next(iter(read_jsonl(rows)))
    passages = [{**good["passage"], "has_answer": 1, "llm_prefer": 1}]
    write_jsonl(tmp_path / "bad.jsonl", [{**good, "passages": passages}, row])
    done = run(*command.split(), tmp_path / "bad.jsonl", "--out", tmp_path / "made")
    assert isinstance(done.exception, InputError)
    assert re.search(said, str(done.exception))


def test_label_bilabel(rows, pool, bert, tmp_path):
    make_reader(bert).save_pretrained(tmp_path / "reader")
    out = tmp_path / "labelled.jsonl"
    arguments = ("label", "bilabel", rows, "--out", out, "--pool", pool, "--depth", 5)
    done = run(*arguments, "--limit", 4, "--llm", tmp_path / "reader")
    assert done.exit_code == 0, done.output
    assert "4 questions, 20 pairs: has_answer=" in done.stderr
    known = {row.question: row.answers for row in reading_rows()}
    labelled = [labelled_row(row) for row in read_jsonl(out)]
    assert len(labelled) == 4
    for row in labelled:
        texts = [f"{p.title} {p.text}" for p in row.passages]
        assert row.has_answer == tuple(int(contains_answer(t, known[row.question])) for t in texts)


def test_train_reader(rows, bert, tmp_path):
    small = ("--steps", 3, "--questions", 4, "--negatives", 1, "--base", bert)
    done = run("train", "reader", rows, "--out", tmp_path / "model", *small)
    assert done.exit_code == 0, done.output
    row = reading_rows()[0]
    reader = ExtractiveReader.from_pretrained(tmp_path / "model", device="cpu")
    assert reader.read([(row.question, row.passage)])[0].text in row.passage.text


@pytest.mark.parametrize("tune", ["head", "lora"])
def test_train_bilabel(bert, tune, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, labelled_rows()))
    small = ("--steps", 2, "--tune", tune, "--base", bert, "--validation", 0.3, "--no-bfloat16")
    done = run("train", "bilabel", tmp_path / "rows.jsonl", "--out", tmp_path / "model", *small)
    assert done.exit_code == 0 and "has_answer AUC" in done.stderr, done.output
    row = labelled_rows()[0]
    scorer = BiLabelScorer.from_pretrained(tmp_path / "model", device="cpu")
    assert 0 <= scorer.score([(row.question, row.passages[0])])[0].has_answer <= 1
    assert scorer.manifest["trained"]["evidence"] is True


def test_calibrate_reader(bert, tmp_path):
    make_reader(bert).save_pretrained(tmp_path / "reader")
    scored = [replace(row, reader_scores=(0.9, 0.2, 0.1)) for row in labelled_rows()]
    empty = [
        replace(row, reader_scores=(0.6, 0.2, 0.1), has_answer=(0, 0, 0), llm_prefer=(0,) * 3)
        for row in labelled_rows()
    ]
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, scored + empty))
    done = run("calibrate", "reader", tmp_path / "rows.jsonl", "--model", tmp_path / "reader")
    assert done.exit_code == 0 and "1.000" in done.stderr, done.output
    reader = ExtractiveReader.from_pretrained(tmp_path / "reader", device="cpu")
    assert 0.6 < reader.abstain_below <= 0.9


def test_a_wrong_tuning_is_refused(bert, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, labelled_rows()))
    arguments = ("train", "bilabel", tmp_path / "rows.jsonl", "--out", tmp_path / "model")
    done = run(*arguments, "--base", bert, "--tune", "some")
    assert isinstance(done.exception, InputError)
    assert "--tune` must be head, lora or full" in str(done.exception)
    assert not (tmp_path / "model").exists()


def test_a_fitted_recognizer_is_a_gate_of_a_recipe(bert, tmp_path):
    make_scorer(bert).save_pretrained(tmp_path / "scorer")
    passages = [{"title": "", "text": "the king wrote a film"}, {"title": "", "text": "a river"}]
    rows = [
        {"question": f"{'who wrote' if i % 2 else 'what river'} {i}", "passages": passages}
        | {"known": bool(i % 2)}
        for i in range(20)
    ]
    write_jsonl(tmp_path / "rows.jsonl", [*rows, {"question": "?", "error": {"message": "no"}}])
    how = ("--scorer", tmp_path / "scorer", "--encoder", bert, "--device", "cpu", "--k", 3)
    command = ("train", "recognizer", tmp_path / "rows.jsonl", "--out", tmp_path / "gate", *how)
    done = CliRunner().invoke(app, [str(each) for each in command])
    assert done.exit_code == 0, done.output
    fitted = json.loads((tmp_path / "gate" / "recognizer.json").read_text())["thresholds"]
    assert fitted["rows"] == 10 and fitted["k"] == 3 and 0.5 <= fitted["accuracy"] <= 1.0
    recipe = {"method": "FitRag", "gate": str(tmp_path / "gate"), "detector": False}
    method = method_from(recipe, scorer=str(tmp_path / "scorer"))
    assert isinstance(method.gate, SelfKnowledgeRecognizer) and method.detector is False
    assert method.gate.thresholds.rows == 10


def test_a_row_without_its_label_is_named(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [{"question": "who", "passages": [{"text": "a king"}]}])
    command = ("train", "recognizer", tmp_path / "rows.jsonl", "--out", tmp_path / "gate")
    done = CliRunner().invoke(app, [str(each) for each in command])
    assert "row 1: `known` must be" in str(done.exception)
