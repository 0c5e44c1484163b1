"""`fitrag evaluate report`: result files in, one page out."""

import json

import pytest

from fitrag_integrations.evaluation.result import Result

FIGURES = [{"figure": "AUC", "value": 0.8125, "low": 0.75, "high": 0.875}]


@pytest.fixture
def result(tmp_path):
    path = tmp_path / "gate.json.gz"
    rows = [{"id": "1", "question": "Who built the mill?", "values": {"accuracy": 1.0}}]
    Result("gate", FIGURES, rows, {"seed": 7}).write(path)
    return path


def test_writes_one_page_of_all_results(fitrag, result, tmp_path):
    out = tmp_path / "pages" / "report.html"
    arguments = ("--out", out, "--title", "A & B", "--json")
    code, written, _ = fitrag("evaluate", "report", result, result, *arguments)
    told = json.loads(written)
    assert code == 0
    assert told == {"results": 2, "out": str(out), "bytes": out.stat().st_size}
    page = out.read_text(encoding="utf-8")
    assert "<h1>A &amp; B</h1>" in page
    assert page.count("0.750 to 0.875") == 2
    assert page.count("Who built the mill?") == 1


def test_prices_are_named_as_those_of_the_other_commands(fitrag, tmp_path):
    path, out = tmp_path / "methods.json", tmp_path / "report.html"
    line = {"method": "direct", "accuracy": 0.5, "tokens_in": 1000.0, "tokens_out": 10.0}
    Result("methods", [line]).write(path)
    arguments = ("--out", out, "--price-in", 2, "--price-out", 10)
    assert fitrag("evaluate", "report", path, *arguments)[0] == 0
    page = out.read_text(encoding="utf-8")
    assert "cost of 1,000" in page
    assert "2.100" in page
