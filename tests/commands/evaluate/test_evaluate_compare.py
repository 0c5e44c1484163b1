"""Every command writes its result alike, and `fitrag evaluate compare` sets two side by side."""

import json

import pytest
from command_fakes import FirstWord, passages, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.evaluate import methods as evaluate_methods
from fitrag_integrations.evaluation.result import Result

SETTINGS = set(
    ["version", "command", "seed", "resamples", "made", "machine", "data", "models", "options"]
)


@pytest.fixture
def run(evaluate):
    def go(verb, *arguments, code=0):
        return evaluate(verb, "--resamples", 20, *arguments, code=code)

    return go


def gate_rows(shift):
    return [
        {
            "question": f"what is {i}?",
            "answers": [str(i)],
            "p_known": min(1.0, (i + shift) / 20),
            "right_without": int(i > 10),
            "right_with": int(i % 3 > 0),
        }
        for i in range(20)
    ]


def ranked_rows(scores):
    return [
        {
            "question": f"who wrote part {i}?",
            "answers": ["Ann"],
            "passages": passages("Rain falls.", "Ann wrote it."),
            "scores": [{"has_answer": s, "llm_prefer": 0.5} for s in scores],
        }
        for i in range(8)
    ]


def check(result, kind):
    assert (result.kind, set(result.settings)) == (kind, SETTINGS)
    assert result.settings["command"] == f"evaluate {kind}"
    assert all({"id", "question", "values"} <= set(row) for row in result.per_question)
    assert result.plots


def test_a_gates_results_are_compared(tmp_path, run):
    for name, shift in (("one", 0), ("two", 5)):
        source = write(tmp_path / f"{name}.jsonl", gate_rows(shift))
        run("gate", source, "--out", tmp_path / f"{name}.json")
        check(Result.read(tmp_path / f"{name}.json"), "gate")
    told = json.loads(run("compare", tmp_path / "one.json", tmp_path / "two.json", "--json"))
    rows = {row["figure"]: row for row in told["figures"]}
    own = {row["figure"]: row["value"] for row in Result.read(tmp_path / "one.json").figures}
    for name in ("accuracy of the gate", "AUC", "share of retrieval", "accuracy of the answers"):
        assert rows[name]["first"] == pytest.approx(own[name])
    for name in ("sweep area", "calibration error"):
        assert rows[name]["first"] == pytest.approx(own[name])
        assert rows[name]["difference_low"] <= rows[name]["difference_high"]
    assert rows["p_known"]["difference"] > 0
    differing = {row["setting"] for row in told["settings"]}
    assert differing == {"data.files", "data.hash"}


def test_a_rerankers_results_are_compared_order_by_order(tmp_path, run):
    for name, scores in (("one", [0.9, 0.1]), ("two", [0.1, 0.9])):
        source = write(tmp_path / f"{name}.jsonl", ranked_rows(scores))
        run("rerank", source, "--out", tmp_path / f"{name}.json", "--k", "1,2")
        check(Result.read(tmp_path / f"{name}.json"), "rerank")
    text = run(
        "compare", tmp_path / "one.json", tmp_path / "two.json", "--out", tmp_path / "c.json"
    )
    assert "has_answer" in text and "R@1" in text and "note: data.hash differs" in text
    rows = {(r["system"], r["figure"]): r for r in Result.read(tmp_path / "c.json").figures}
    assert rows["has_answer", "R@1"]["difference"] == 1.0
    assert rows["retriever", "R@1"]["difference"] == 0.0
    assert rows["has_answer", "AUC"]["second"] == 1.0
    assert Result.read(tmp_path / "c.json").settings["differences"]


def test_methods_leave_answers_costs_and_traces(tmp_path, monkeypatch, run):
    reader = FirstWord()
    monkeypatch.setattr(models, "load_reader", lambda options: reader)
    reader.abstain_below = None
    monkeypatch.setattr(
        evaluate_methods, "load_writer", lambda *how: lambda prompts: ["Ann"] * len(prompts)
    )
    rows = [
        {"question": f"who wrote {i}?", "answers": ["Ann"], "passages": passages(f"Ann wrote {i}.")}
        for i in range(4)
    ]
    source, out = write(tmp_path / "q.jsonl", rows), tmp_path / "a.jsonl"
    told = json.loads(
        run(
            *("methods", source, "--out", out, "--result", tmp_path / "m.json", "--quiet"),
            *("--methods", "direct,vanilla", "--price-in", 1, "--price-search", 2, "--traces"),
            *("--llm", "w", "--json"),
        )
    )
    direct, plain = told["methods"]
    assert direct["cost"] == pytest.approx(direct["tokens_in"] / 1000 + 2)
    assert plain["cost"] == pytest.approx(plain["tokens_in"] / 1000)
    made = Result.read(tmp_path / "m.json")
    check(made, "methods")
    assert [row["system"] for row in made.per_question] == ["direct"] * 4 + ["vanilla"] * 4
    assert "1. retrieve: 1 asked" in made.per_question[0]["explained"]
    judged = json.loads(run("answers", out, "--json"))
    accuracy = [r["value"] for r in judged["figures"] if r["figure"] == "accuracy"]
    assert accuracy == [line["accuracy"] for line in told["methods"]]


def test_published_rows_are_ranked_and_answered(tmp_path, scorer, run):
    hotpot = {
        "_id": "h1",
        "question": "Who wrote it?",
        "answer": "Ann",
        "supporting_facts": [["Book", 0]],
        "context": [["Rain", ["Rain falls."]], ["Book", ["Ann wrote it."]]],
    }
    source = write(tmp_path / "hotpot.jsonl", [hotpot])
    assert "passages" in run("rerank", source, code=2)
    told = json.loads(run("rerank", source, "--format", "hotpotqa", "--k", "1", "--json"))
    first = {order: figures["R@1"]["value"] for order, figures in told["figures"].items()}
    assert (first["retriever"], first["has_answer"]) == (0.0, 1.0)
    assert "paragraphs" in run("rerank", source, "--format", "musique", code=2)


@pytest.mark.parametrize("common", [False, True])
def test_other_questions_and_other_files_are_refused(tmp_path, run, common):
    one = write(tmp_path / "one.jsonl", gate_rows(0))
    two = write(tmp_path / "two.jsonl", gate_rows(0)[5:])
    run("gate", one, "--out", tmp_path / "one.json")
    run("gate", two, "--out", tmp_path / "two.json.gz")
    arguments = ("compare", tmp_path / "one.json", tmp_path / "two.json.gz")
    if common:
        told = json.loads(run(*arguments, "--common", "--json"))
        assert {row["questions"] for row in told["figures"]} == {15}
        assert "5 of the first and 0 of the second are left out" in told["notes"][0]
    else:
        assert "--common" in run(*arguments, code=2)
        assert "JSON of a fitrag evaluation" in run("compare", one, one, code=2)
