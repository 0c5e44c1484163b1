"""Two results over the same questions."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.compare import compared, paired, setting_differences
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.result import Result

DRAWS = Draws(resamples=200, seed=1)


def question(name, right, system="", **others):
    return {"id": name, "question": f"{name}?", "system": system, "values": {"EM": right}, **others}


def result(*questions, kind="answers", **settings):
    return Result(kind, (), questions, settings)


def rows_of(pairs):
    return [figure.to_dict() for figure in compared(pairs, DRAWS)]


def test_questions_are_paired_by_content_in_any_order():
    one = result(question("a", 1.0), question("b", 0.0), question("c", 0.0))
    two = result(question("c", 1.0), question("a", 1.0), question("b", 1.0))
    (row,) = rows_of(paired(one, two))
    assert (row["figure"], row["first"], row["second"]) == ("EM", pytest.approx(1 / 3), 1.0)
    assert row["difference"] == pytest.approx(2 / 3)
    assert 0 <= row["difference_low"] <= row["difference_high"] == 1.0
    assert row["p"] == pytest.approx(0.5)  # two of two in one direction, exact
    assert rows_of(paired(one, two)) == [row]


def test_kinds_and_systems_have_to_fit():
    with pytest.raises(InputError, match="answers and route"):
        paired(result(question("a", 1.0)), result(question("a", 1.0), kind="route"))
    with pytest.raises(InputError, match="not comparisons"):
        paired(result(kind="compare"), result(kind="compare"))
    one = result(question("a", 1.0, "crag"), question("a", 0.0, "direct"))
    two = result(question("a", 1.0, "direct"), question("a", 1.0, "flare"))
    pairs = paired(one, two)
    assert [row["system"] for row in rows_of(pairs)] == ["direct"]
    assert pairs.notes == (
        "crag is in one result only and left out",
        "flare is in one result only and left out",
    )
    with pytest.raises(InputError, match="a system that is in both"):
        paired(one, result(question("a", 1.0, "x"), question("a", 1.0, "y")))
    with pytest.raises(InputError, match="there are none"):
        paired(result(question("a", 1.0)), result(question("z", 1.0)), common=True)
    alone = paired(result(question("a", 1.0, "old")), result(question("a", 0.0, "new")))
    assert rows_of(alone)[0]["difference"] == -1.0


def test_areas_are_compared_over_the_same_draws():
    scored = [("a", 0.9, 1), ("b", 0.4, 0), ("c", 0.3, 1), ("d", 0.1, 0)]
    one = result(*(question(n, 1.0, pairs={"AUC": [[s, y]]}) for n, s, y in scored))
    two = result(*(question(n, 1.0, pairs={"AUC": [[float(y), y]]}) for n, s, y in scored))
    rows = {row["figure"]: row for row in rows_of(paired(one, two))}
    assert (rows["AUC"]["first"], rows["AUC"]["second"]) == (3 / 4, 1.0)
    assert rows["AUC"]["difference"] == 1 / 4
    assert (rows["AUC"]["p"], rows["EM"]["difference"]) == (None, 0.0)


def test_settings_that_differ_are_told():
    one = result(seed=1, made="monday", options={"k": 3, "model": None}, data={"hash": "x"})
    two = result(seed=1, made="friday", options={"k": 5, "model": None, "new": True})
    assert setting_differences(one, two) == [
        {"setting": "options.k", "first": 3, "second": 5},
        {"setting": "data.hash", "first": "x", "second": None},
        {"setting": "options.new", "first": None, "second": True},
    ]
