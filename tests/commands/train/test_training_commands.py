"""`fitrag label` and `fitrag train`, from files to files."""

import json
from dataclasses import replace

import pytest
from tiny import make_reader, make_scorer
from training_rows import labelled_rows, reading_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import ModelLoadError, ThresholdMismatchError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.fitrag.recognizer import SelfKnowledgeRecognizer
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader
from fitrag_integrations.training.rows import (
    labelled_json,
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


def test_train_reader(rows, bert, tmp_path):
    small = ("--steps", 3, "--questions", 4, "--negatives", 1, "--base", bert)
    done = run("train", "reader", rows, "--out", tmp_path / "model", *small)
    assert done.exit_code == 0, done.output
    row = reading_rows()[0]
    reader = ExtractiveReader.from_pretrained(tmp_path / "model", device="cpu")
    assert reader.read([(row.question, row.passage)])[0].text in row.passage.text


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


def test_a_fitted_recognizer_is_a_gate(bert, tmp_path):
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
    gate = SelfKnowledgeRecognizer.load(tmp_path / "gate")
    assert gate.thresholds.rows == 10
    FitRag(BiLabelScorer.from_pretrained(tmp_path / "scorer"), gate=gate, detector=False)
    with pytest.raises(ThresholdMismatchError):
        FitRag(gate=gate)
    with pytest.raises(ModelLoadError):
        SelfKnowledgeRecognizer.load(tmp_path / "scorer")
