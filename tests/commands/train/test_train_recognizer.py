"""`fitrag train recognizer`: from labelled rows to a gate that a recipe names."""

import json

from tiny import make_scorer
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.methods import method_from
from fitrag_integrations.methods.fitrag.recognizer import SelfKnowledgeRecognizer
from fitrag_integrations.training.rows import write_jsonl


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
    assert "row 1: known: given None" in str(done.exception)
