"""How one answer is judged."""

import math

import pytest

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.evaluation.judging import (
    chosen,
    each_apart,
    fact_scores,
    gold,
    judged,
    llm_judged,
    predicted,
)

CHOICES = [
    {"label": "A", "text": "a river"},
    {"label": "B", "text": "a river bed"},
    {"label": "C", "text": "the moon"},
]
VERDICTS = [{"label": v, "text": v} for v in ("false", "mixture", "true", "unproven")]


def test_inclusion_exact_match_and_f1():
    row = {"answers": ["the Black Forest", "Schwarzwald"]}
    assert judged("black forest", row) == {"accuracy": 0.0, "EM": 1.0, "F1": 1.0}
    found = judged("It rises in the Black Forest.", row)
    assert found == {"accuracy": 1.0, "EM": 0.0, "F1": pytest.approx(2 * 2 / (5 + 2))}
    assert judged("", row) == {"accuracy": 0.0, "EM": 0.0, "F1": 0.0}


@pytest.mark.parametrize(
    ("prediction", "text"),
    [
        ("B", "a river bed"),
        ("C. It shines.", "the moon"),
        ("The answer is C", "the moon"),
        ("Answer: A", "a river"),
        ("It must be the moon!", "the moon"),
        ("A dog", None),
        ("a river or the moon", None),
        ("", None),
    ],
)
def test_the_choice_that_a_prediction_names(prediction, text):
    assert chosen(prediction, CHOICES) == text


def test_a_choice_is_right_by_its_label_or_its_text():
    row = {"answers": ["the moon"], "choices": CHOICES}
    assert judged("C", row) == {"accuracy": 1.0, "EM": 1.0, "F1": 1.0}
    assert judged("B", row)["accuracy"] == 0.0
    assert judged("true, mostly a mixture", {"answers": ["true"], "choices": VERDICTS}) == {
        "accuracy": 0.0,
        "EM": 0.0,
        "F1": pytest.approx(2 / 4),
    }


def test_what_was_answered():
    assert predicted({"prediction": "a", "answer": "b"}) == "a"
    assert predicted({"answer": "b"}) == "b"
    assert predicted({"answer": None, "error": {"message": "away"}}) == ""
    with pytest.raises(InputError, match="prediction"):
        predicted({"answers": ["a"]})
    assert gold({"answers": ["a", " "]}) == ["a"]
    for wrong in (None, [], [" "], "a", [1]):
        with pytest.raises(InputError, match="answers"):
            gold({"answers": wrong})


def test_long_answers_are_measured_by_their_common_words():
    row = {"answers": ["Ulm"], "long_answers": ["It ends at Ulm.", "The Iller meets the Danube."]}
    found = judged("It ends at the Danube.", row)
    assert found["ROUGE-L"] == pytest.approx(2 * 3 / (5 + 4))
    found = judged("It ends at the Danube.", row | {"long_answers": row["long_answers"][:1]})
    assert found["ROUGE-1"] == pytest.approx(2 * 3 / (5 + 4))
    assert found["ROUGE-2"] == pytest.approx(2 * 2 / (4 + 3))
    assert judged("", row)["ROUGE-2"] == 0.0
    assert "ROUGE-L" not in judged("Ulm", {"answers": ["Ulm"]})


def test_readings_count_in_equal_parts_and_each_gold_answer_may_be_one():
    row = {"answers": ["Ulm", "Basel"], "answer_groups": [["Ulm"], ["Basel", "Basle"], ["Bern"]]}
    assert judged("Ulm and Basle", row)["STR-EM"] == pytest.approx(2 / 3)
    row = {"answers": ["Ulm", "Basel", "Bern"]}
    assert judged("Ulm and Bern", each_apart(row))["STR-EM"] == pytest.approx(2 / 3)
    grouped = {"answers": ["Ulm"], "answer_groups": [["Ulm", "Elm"]]}
    assert each_apart(grouped) == grouped


def test_each_round_is_judged():
    rounds = [
        {"document": "The Sill is a brook.", "answer": "a brook"},
        {"document": "It ends at Ulm.", "answer": "the Ulm"},
        {"document": "", "answer": None},
    ]
    found = judged("Ulm", {"answers": ["Ulm"], "rounds": rounds})
    assert {name: value for name, value in found.items() if "round" in name} == {
        "EM, round 1": 0.0,
        "answer recall, round 1": 0.0,
        "EM, round 2": 1.0,
        "answer recall, round 2": 1.0,
        "answer recall, round 3": 0.0,
    }


class Judge:
    """Say Yes to what has a word, and remember what was asked."""

    def __init__(self, *words):
        self.words, self.asked = words, []

    def p_yes(self, prompts):
        self.asked += prompts
        said = [prompt.partition("Statement")[2] or prompt for prompt in prompts]
        return [0.9 if any(word in each for word in self.words) else 0.2 for each in said]


def test_a_language_model_judges_answers():
    judge = Judge("Answer given: Ulm")
    rows = [
        {"question": "where?", "answers": ["Ulm", "Elm"], "prediction": text}
        for text in ("Ulm", " ", "Basel")
    ]
    assert llm_judged(rows, judge) == [0.9, 0.0, 0.2]
    assert len(judge.asked) == 2 and "Right answers: Ulm; Elm" in judge.asked[0]

    class Away:
        def p_yes(self, prompts):
            return [PortError("away") for _ in prompts]

    with pytest.raises(PortError, match="away"):
        llm_judged(rows, Away())


def test_facts_are_judged_by_the_passages():
    passages = [{"title": "Ilse", "text": "Ilse is a painter."}]
    rows = [
        {"topic": "Ilse", "prediction": "Ilse paints. She sings.", "passages": passages},
        {"topic": "Ilse", "prediction": "", "passages": passages},
        {"topic": "Ilse", "prediction": "x", "facts": ["a paints"] * 12, "passages": passages},
    ]
    judge = Judge("paints")
    short, none, long = fact_scores(rows, judge)
    shortened = pytest.approx(0.5 * math.exp(1 - 10 / 2))
    assert short == {"answered": 1.0, "supported": 0.5, "FActScore": shortened}
    assert none == {"answered": 0.0}
    assert long == {"answered": 1.0, "supported": 1.0, "FActScore": 1.0}
    assert "Ilse: Ilse is a painter.\n\nStatement about Ilse: Ilse paints." in judge.asked[0]
    assert fact_scores(rows[:1], judge, gamma=0)[0]["FActScore"] == 0.5
    (told,) = fact_scores(rows[:1], judge, facts_of=lambda text: text.split())
    assert told["supported"] == 0.25


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("long_answers", "one text"),
        ("choices", ["A"]),
        ("choices", [{"label": "A"}]),
        ("answer_groups", ["a"]),
        ("rounds", [{"document": "d", "answer": 3}]),
        ("rounds", ["x"]),
    ],
)
def test_a_field_of_another_kind_is_named(field, value):
    with pytest.raises(InputError, match=field):
        judged("x", {"answers": ["a"], field: value})
