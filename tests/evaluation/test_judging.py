"""How one answer is judged."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.judging import chosen, gold, judged, predicted

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


def test_readings_count_in_equal_parts():
    row = {"answers": ["Ulm", "Basel"], "answer_groups": [["Ulm"], ["Basel", "Basle"], ["Bern"]]}
    assert judged("Ulm and Basle", row)["STR-EM"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("prediction", "text"),
    [
        ("B", "a river bed"),
        ("(b) because", "a river bed"),
        ("C. It shines.", "the moon"),
        ("The answer is C", "the moon"),
        ("Answer: A", "a river"),
        ("It must be the moon!", "the moon"),
        ("a river bed", "a river bed"),
        ("A dog", None),
        ("a river or the moon", None),
        ("D", None),
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
    assert judged("It ends at the Danube.", row)["ROUGE-L"] == pytest.approx(2 * 3 / (5 + 4))
    assert "ROUGE-L" not in judged("Ulm", {"answers": ["Ulm"]})
    with pytest.raises(InputError, match="long_answers"):
        judged("Ulm", {"answers": ["Ulm"], "long_answers": "one text"})
