"""From labelled rows to a necessity judge that writes its verdicts."""

import json

import pytest
from tiny_causal import write_llama
from toy_known import toy_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.models import NecessityJudge
from fitrag_integrations.training.causal.slimplm import NecessityPlan, balanced, fit_necessity
from fitrag_integrations.training.collecting import matching_ratio, recall
from fitrag_integrations.training.rows import known_rows, write_jsonl

TOY = {"epochs": 8.0, "rate": 2e-2, "rank": 8, "alpha": 16, "dropout": 0.0, "batch": 8}
TOY |= {"validation": 0.3}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("base") / "little")


@pytest.fixture(scope="module", params=["paper", "released"])
def fitted(request, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("fitted") / request.param
    return out, fit_necessity(toy_rows(160), out, NecessityPlan(base, request.param, **TOY))


def test_its_verdicts_are_written_and_read(fitted):
    out, figures = fitted
    assert figures["judge AUC"] > 0.9 and figures["judge accuracy"] > 0.8
    judge = NecessityJudge.from_pretrained(out, device="cpu", for_model="little")
    rows = toy_rows(30, seed=99)
    asked = [row["question"] for row in rows], [row["draft"] for row in rows]
    verdicts, scores = judge.judge(*asked), judge.p_known(*asked)
    assert None not in verdicts
    right = sum(verdict == row["known"] for verdict, row in zip(verdicts, rows, strict=True))
    assert right > 0.8 * len(rows)
    for verdict, score in zip(verdicts, scores, strict=True):
        assert verdict == (score > 0.5) or score == pytest.approx(0.5, abs=0.05)


def test_labels_come_from_the_answers(base, tmp_path):
    rows = [{k: v for k, v in row.items() if k != "known"} for row in toy_rows()]
    fit_necessity(rows, tmp_path, NecessityPlan(base, **{**TOY, "epochs": 0.5}))
    manifest = json.loads((tmp_path / "model.json").read_text())
    assert manifest["kind"] == "necessity" and manifest["trained"]["theta"] == 0.5
    with pytest.raises(InputError, match="answers` must be"):
        fit_necessity([{"question": "who?", "draft": "a"}], tmp_path, NecessityPlan(base))


@pytest.mark.parametrize(
    ("draft", "answers", "ratio", "known"),
    [
        ("Rome and Paris", ["Rome", "Paris"], 1.0, True),
        ("Rome", ["Rome", "Paris"], 0.5, False),  # strictly more than half
        ("Rome", [["Rome", "Roma"], ["Paris"], ["rome"]], 2 / 3, True),
        ("Romeo", ["Rome"], 0.0, False),
        ("Rome", [], 0.0, False),
    ],
)
def test_the_label_of_a_draft(draft, answers, ratio, known):
    assert matching_ratio(draft, answers) == pytest.approx(ratio)
    assert (matching_ratio(draft, answers) > 0.5) is known


def test_the_teachers_compare_strings():
    assert recall("the Black ocean", ["Black Sea", "North Atlantic Ocean"]) == 0.5
    assert recall("black sea", ["the Black Sea"]) == pytest.approx(2 / 3)
    assert recall("sea sea", ["sea"]) == 1.0 and recall("sea", ["?!"]) == 0.0


def test_unknowns_are_sampled_down_to_the_knowns():
    rows = known_rows({**row, "known": i % 5 == 0} for i, row in enumerate(toy_rows(50)))
    kept = balanced(rows, seed=1)
    assert sum(row.known for row in kept) == 10 and len(kept) == 20
    assert kept == balanced(rows, seed=1) != balanced(rows, seed=2)
    assert [row for row in rows if row in kept] == kept
    mostly = known_rows({**row, "known": i % 5 != 0} for i, row in enumerate(toy_rows(50)))
    assert balanced(mostly, seed=1) == mostly


def test_wrong_plans_are_named(base, tmp_path):
    with pytest.raises(InputError, match="template` must be"):
        fit_necessity(toy_rows(), tmp_path, NecessityPlan(base, "mine"))
    with pytest.raises(InputError, match="theta` must be"):
        fit_necessity(toy_rows(), tmp_path, NecessityPlan(base, theta=2.0))


def test_train_necessity_from_the_command_line(base, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", toy_rows())
    arguments = ["train", "necessity", tmp_path / "rows.jsonl", "--out", tmp_path / "judge"]
    arguments += ["--base", base, "--epochs", 0.5, "--validation", 0.3, "--template", "released"]
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0 and "judge AUC" in done.stderr, done.output
    judge = NecessityJudge.from_pretrained(tmp_path / "judge", device="cpu")
    assert judge.p_known(["who?"], ["a king"])
