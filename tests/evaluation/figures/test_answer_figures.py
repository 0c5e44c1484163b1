"""Answers of one system and of several, over sets, with what they cost."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figure import Figure
from fitrag_integrations.evaluation.figures.answers import (
    answer_figures,
    answer_plots,
    answer_rows,
    with_gold,
)
from fitrag_integrations.evaluation.figures.summaries import Draws

DRAWS = Draws(resamples=200, seed=1)


def rows(right, **others):
    return [
        {
            "question": f"who wrote part {i}?",
            "answers": [f"Ann {i}"],
            "set": "even" if i % 2 == 0 else "odd",
            "prediction": f"Ann {i}" if i in right else "Bob",
            **others,
        }
        for i in range(8)
    ]


def figure(figures, name, **labels):
    wanted = {"figure": name, "set": "all", "system": "", **labels}
    (found,) = [row for row in map(Figure.to_dict, figures) if wanted.items() <= row.items()]
    return found


def test_each_set_has_its_own_lines():
    found = answer_figures(answer_rows(rows({0, 1, 2})), DRAWS)
    assert figure(found, "accuracy")["value"] == 3 / 8
    assert figure(found, "accuracy", set="even")["value"] == 2 / 4
    assert figure(found, "EM", set="odd")["questions"] == 4
    whole = figure(found, "accuracy")
    assert whole["low"] < 3 / 8 < whole["high"]
    assert "difference" not in whole


def test_what_was_always_right_is_not_sure_and_what_was_always_spent_is():
    found = answer_figures(answer_rows(rows(set(range(8)), retriever_calls=1)), DRAWS)
    right, calls = figure(found, "accuracy"), figure(found, "retriever_calls")
    assert (round(right["low"], 3), right["value"], right["high"]) == (0.676, 1.0, 1.0)
    assert (calls["low"], calls["high"]) == (1.0, 1.0)


def test_plots_show_measures_and_tokens():
    made = answer_rows(rows({0}, tokens_in=500))
    bars, dots = answer_plots(answer_figures(made, DRAWS), made)
    assert list(bars.series) == ["all", "even", "odd"]
    assert dots.series == {"answers": [[500.0, 1 / 8]]}
    assert len(answer_plots(answer_figures(answer_rows(rows({0})), DRAWS), made[:0])) == 1


def test_gold_answers_come_from_other_rows():
    asked = [{"question": "Who wrote it", "prediction": "Ann"}]
    (made,) = with_gold(asked, [{"question": "who wrote it?", "answers": ["Ann"], "set": "x"}])
    assert (made["answers"], made["set"], asked[0].get("answers")) == (["Ann"], "x", None)
    with pytest.raises(InputError, match="row 1: `question`.*one of --gold"):
        with_gold(asked, [{"question": "why?", "answers": ["so"]}])


@pytest.mark.parametrize(
    ("more", "file", "system"),
    [({"method": "crag"}, "file", "file/crag"), ({"method": "crag"}, "", "crag"), ({}, "", "")],
)
def test_systems_repeated_questions_and_bad_rows_are_named(more, file, system):
    made = answer_rows(rows({0}, **more)[:1] * 2, file)
    assert {row["system"] for row in made} == {system}
    assert made[1]["id"] == f"{made[0]['id']}#2"
    with pytest.raises(InputError, match="row 2: `answers`"):
        answer_rows([rows({0})[0], {"question": "who?", "answers": [], "prediction": "a"}])


def test_seconds_of_a_batch_have_no_interval():
    shared = answer_rows(rows({0}, seconds=0.25), "one")
    own = [{**row, "seconds": 0.1 + i} for i, row in enumerate(rows({0}))]
    found = answer_figures([*shared, *answer_rows(own, "two")], DRAWS)
    one, two = (figure(found, "seconds", system=name) for name in ("one", "two"))
    assert (one["value"], one["low"], one["high"]) == (0.25, None, None)
    assert two["low"] < two["value"] < two["high"]
    assert (two["difference_low"], two["difference_high"]) == (None, None)
    assert figure(found, "accuracy", system="one")["low"] is not None
