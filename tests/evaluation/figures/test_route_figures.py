"""Actions against what was retrieved."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.decisions import (
    labels,
    route_figures,
    route_plots,
    route_rows,
)
from fitrag_integrations.evaluation.figures.summaries import Draws

DRAWS = Draws(resamples=100, seed=1)
ROWS = [
    ("correct", [0.9, -1.0], [1, 0]),
    ("correct", [0.8, 0.1], [0, 0]),
    ("ambiguous", [0.2, 0.0], [0, 1]),
    ("incorrect", [-0.9, -0.8], [0, 0]),
    ("incorrect", [], []),
]


def rows():
    return [
        {
            "question": f"question {i}?",
            "action": action,
            "grades": grades,
            "passages": [{"text": "x", "has_answer": label} for label in held],
        }
        for i, (action, grades, held) in enumerate(ROWS)
    ]


def values(figures):
    return {figure.name: figure.value for figure in figures if "truth" not in figure.of}


def test_the_confusion_and_what_follows_from_it():
    figures = route_figures(route_rows(rows()), DRAWS)
    found = values(figures)
    assert found["right where decided"] == 3 / 4
    assert (found["right where correct"], found["right where incorrect"]) == (1 / 2, 1.0)
    assert (found["decided"], found["an answer is there"]) == (4 / 5, 2 / 5)
    # best grades with an answer .9 .2, without .8 -.8: 3 of 4 pairs in order
    assert found["AUC of the best grade"] == 3 / 4
    # with an answer .9 .0; without -1 .8 .1 .2 -.9 -.8: .9 is above all six, 0 above three
    assert found["AUC of each grade"] == pytest.approx(9 / 12)
    counts = {(f.of["action"], f.of["truth"]): f.value for f in figures if "truth" in f.of}
    assert counts["correct", "an answer is there"] == counts["correct", "no answer is there"] == 1
    assert counts["ambiguous", "an answer is there"] == 1
    assert counts["incorrect", "no answer is there"] == 2
    assert sum(counts.values()) == 5


def test_labels_are_found_by_answers():
    row = {"answers": ["Ann"], "passages": [{"title": "Ann", "text": "x"}, {"text": "Bob"}]}
    assert labels(row) == [1, 0]
    with pytest.raises(InputError, match="answers"):
        labels({"passages": [{"text": "x"}]})


def test_without_grades_there_is_neither_area_nor_histogram():
    bare = [{k: v for k, v in row.items() if k != "grades"} for row in rows()]
    made = route_rows(bare)
    assert "AUC of the best grade" not in values(route_figures(made, DRAWS))
    assert [plot.kind for plot in route_plots(made)] == ["bar"]
    assert [plot.kind for plot in route_plots(route_rows(rows()))] == ["bar", "histogram"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"action": "right"}, "correct, ambiguous, incorrect"),
        ({"grades": [0.5, 2]}, r"grades\[1\]"),
        ({"passages": None}, "passages"),
        ({"passages": [{"text": "x", "has_answer": 2}]}, r"passages\[0\].has_answer"),
        ({"question": " "}, "question"),
    ],
)
def test_a_bad_row_is_told_by_its_number(change, told):
    with pytest.raises(InputError, match=f"row 2: .*{told}"):
        route_rows([rows()[0], rows()[0] | change])
