"""`fitrag evaluate route`: actions that rows bring, and those of an evaluator, asked once."""

import json
from functools import partial

import pytest
from command_fakes import passages, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.methods.crag.evaluator import ActionThresholds


class Ann:
    """Trust a passage that names Ann."""

    name = "ann-1"
    thresholds = ActionThresholds(0.5, -0.5, model="ann-1")

    def __init__(self):
        self.calls = []

    def evaluate(self, pairs):
        self.calls.append(len(pairs))
        return [0.9 if "Ann" in passage.text else -0.9 for _, passage in pairs]


@pytest.fixture
def evaluator(monkeypatch):
    made = Ann()
    monkeypatch.setattr(models, "load_evaluator", lambda options: made)
    return made


@pytest.fixture
def tell(evaluate):
    return partial(evaluate, "route", "--resamples", 20, "--quiet")


def rows(count=20):
    return [
        {
            "question": f"who wrote part {i}?",
            "answers": ["Ann"],
            "passages": passages("Ann wrote it." if i % 2 else "Bob wrote it.", "Rain falls."),
        }
        for i in range(count)
    ]


def values(told):
    return {r["figure"]: r["value"] for r in told["figures"] if "truth" not in r}


def test_rows_of_fitrag_route_are_judged_as_they_are(tmp_path, tell):
    done = [
        {**row, "action": "correct" if i < 15 else "ambiguous", "grades": [0.1, 0.0]}
        for i, row in enumerate(rows())
    ]
    source = write(tmp_path / "routed.jsonl", done)
    found = values(json.loads(tell(source, "--json")))
    assert (found["right where decided"], found["decided"]) == (pytest.approx(7 / 15), 0.75)
    table = tell(source, "--plot", tmp_path / "a.png")
    assert "questions by action" in table and "ambiguous" in table
    anew = values(json.loads(tell(source, "--upper", 0.5, "--lower", 0.2, "--json")))
    assert anew["right where incorrect"] == 0.5
    assert "both" in tell(source, "--upper", 0.5, code=2)


def test_an_evaluator_is_asked_once_for_each_row(tmp_path, evaluator, tell):
    source = write(tmp_path / "in.jsonl", rows())
    out = tmp_path / "out.json"
    told = json.loads(tell(source, "--out", out, "--json"))
    assert values(told)["right where decided"] == 1.0
    assert evaluator.calls == [32, 8]
    assert Result.read(out).settings["models"]["evaluator"]["name"] == "embedded"
    assert len(Result.read(out).settings["models"]["evaluator"]["manifest"]) == 64
    tell(source, "--out", out, "--upper", 0.95)
    assert values(json.loads(Result.read(out).to_json()))["decided"] == 0.5
