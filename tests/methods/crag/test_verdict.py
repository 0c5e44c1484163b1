"""A list judged as a whole: its numbers, the action they lead to, whose models they are of."""

import json
import math
from types import SimpleNamespace

import pytest

from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag
from fitrag_integrations.methods.crag.evaluator import ActionJudge
from fitrag_integrations.methods.crag.verdict import INPUTS, ListJudge, ListVerdict, list_numbers
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Passage
from fitrag_integrations.values.thresholds import ActionThresholds

PASSAGES = [Passage("1", "Rome is old."), Passage("2", " "), Passage("3", "Paris, of Rome.")]
MODELS = {"scorer": "s", "evaluator": "e", "reader": "r"}


class Models:
    """Be scorer, evaluator and reader; remember what was asked."""

    thresholds = ActionThresholds(0.5, -0.5, model="e")

    def __init__(self, name):
        self.name, self.asked = name, []

    def score(self, pairs):
        self.asked.append(("score", len(pairs)))
        return [BiLabelScore(0.9, 0.5), BiLabelScore(0.2, 0.6)]

    def evaluate(self, pairs):
        self.asked.append(("evaluate", len(pairs)))
        return [0.2, -0.4]

    def read(self, pairs):
        self.asked.append(("read", len(pairs)))
        return [answer("Rome", 0.7), answer("of ROME!", 0.1)]


def answer(text, score):
    return SimpleNamespace(text=text, start=0, end=len(text), score=score)


def verdict(bias=0.0, **weights):
    named = {name.replace("_is_", " "): weight for name, weight in weights.items()}
    return ListVerdict(named, bias, 0.7, 0.3, MODELS)


def test_the_numbers_of_a_list():
    models = Models("all")
    numbers = list_numbers(models.score([]), models.evaluate([]), models.read([]))
    assert set(numbers) == set(INPUTS)
    logit = math.log(9)
    assert numbers["has_answer best"] == pytest.approx(logit)
    assert (
        numbers["has_answer second"] == numbers["has_answer third"] == pytest.approx(-math.log(4))
    )
    assert numbers["has_answer mean"] == pytest.approx((logit - math.log(4)) / 2)
    assert numbers["grade best"] == pytest.approx(math.log(0.6 / 0.4))
    assert numbers["support"] == 0.7 and numbers["support share"] == pytest.approx(0.875)
    assert numbers["same answer"] == 0.5 and numbers["alike answer"] == 1.0
    assert numbers["length"] == pytest.approx(math.log(2))


def test_a_scorer_of_one_label_counts_for_both():
    numbers = list_numbers([BiLabelScore(0.9)], [], [])
    assert numbers["llm_prefer best"] == numbers["has_answer best"]
    assert list_numbers([BiLabelScore(1.0)], [], [])["has_answer best"] == pytest.approx(
        13.8, abs=0.1
    )


@pytest.mark.parametrize(("bias", "action"), [(2, "correct"), (0, "ambiguous"), (-2, "incorrect")])
def test_the_chance_decides_and_the_trace_tells_its_numbers(bias, action):
    scorer, grader, reader = Models("s"), Models("e"), Models("r")
    judge = ListJudge(verdict(bias, grade_is_best=1.0), scorer=scorer, reader=reader)
    ports = Ports(retrieve=lambda queries: [PASSAGES for _ in queries], search=lambda queries: [[]])
    traced = run(Crag(grader, verdict=judge)("q", ports))
    context = traced.value
    numbers = context.details["list"]
    best = math.log(0.6 / 0.4)
    assert context.action.value == action and numbers["inputs"] == {
        "grade best": pytest.approx(best)
    }
    assert numbers["chance"] == pytest.approx(1 / (1 + math.exp(-bias - best)))
    assert (numbers["upper"], numbers["lower"]) == (0.7, 0.3)
    assert (
        f"chance of the list {numbers['chance']:.2f}, thresholds 0.70 and 0.30" in traced.explain()
    )
    assert not scorer.asked and not reader.asked  # no weight needs them


def test_models_that_weights_need_are_asked_of_passages_with_text():
    scorer, grader, reader = Models("s"), Models("e"), Models("r")
    judge = ListJudge(verdict(has_answer_is_best=1.0, support=0.5), scorer=scorer, reader=reader)
    judged = run(ActionJudge(grader, verdict=judge)("q", PASSAGES)).value
    assert judged.numbers["inputs"] == {
        "has_answer best": pytest.approx(math.log(9)),
        "support": 0.7,
    }
    assert scorer.asked == [("score", 2)] and reader.asked == [("read", 2)]
    assert grader.asked == [("evaluate", 2)] and judged.grades == (0.2, -1.0, -0.4)


def test_a_list_without_text_is_incorrect_and_asks_nobody():
    grader = Models("e")
    judged = run(ActionJudge(grader, verdict=verdict(9.0, grade_is_best=1.0))("q", [])).value
    assert judged.action.value == "incorrect" and judged.numbers["chance"] == 0.0


def test_models_of_other_names_are_refused():
    given = verdict(has_answer_is_best=1.0)
    judge = ListJudge(given, scorer=Models("another"))
    with pytest.raises(ThresholdMismatchError, match="for the scorer 's', given 'another'"):
        _ = run(ActionJudge(Models("e"), verdict=judge)("q", PASSAGES)).value
    judge = ListJudge(given, scorer=Models("another"), allow_other_model=True)
    assert run(ActionJudge(Models("e"), verdict=judge)("q", PASSAGES)).value.numbers


def test_it_is_read_back_and_what_is_wrong_is_named(tmp_path):
    given = verdict(1.0, grade_is_best=1.0, length=-0.5)
    given.save(tmp_path / "kept")
    assert ListVerdict.read(tmp_path / "kept") == given
    with pytest.raises(InputError, match="verdict: given .*nowhere"):
        Crag(Models("e"), verdict=str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="allowed 'embedded', a folder"):
        Crag(Models("e"), verdict=3)
    with pytest.raises(InputError, match="weights: given 'luck'"):
        verdict(luck=1.0)
    with pytest.raises(InputError, match="lower: given 0.9"):
        ListVerdict({}, 0.0, 0.5, 0.9, {})
    numbers = json.loads((tmp_path / "kept" / "model.json").read_text())
    (tmp_path / "kept" / "model.json").write_text(json.dumps({**numbers, "bias": "high"}))
    with pytest.raises(InputError, match="bias"):
        ListVerdict.read(tmp_path / "kept")


def test_a_weight_of_nothing_asks_nobody():
    made = ListVerdict({"grade best": 1.0, "trust best": 0.0}, 0.0, 0.7, 0.3, {})
    assert made.used == ("grade best",) and not made.asks("reader")
    assert made.chance({"grade best": 0.0}) == 0.5
