"""The cost that SlimPLM adds against the paper's Table 4."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.measures import slim_cost
from fitrag_integrations.evaluation.table import Table

TABLE_4 = {
    "ASQA": (192.86, 24.42, 35.27, 3.38, 63.07),
    "NQ": (249.74, 29.61, 38.65, 3.65, 71.91),
    "TQA": (114.07, 15.73, 28.13, 2.47, 46.33),
    "MuSiQ": (168.47, 19.00, 30.84, 2.36, 52.20),
    "ELI5": (471.22, 47.82, 46.82, 4.23, 98.87),
}


@pytest.mark.parametrize("name", TABLE_4)
def test_table_4(name):
    chat, proxy, rewrite, judge, total = TABLE_4[name]
    written = {"proxy": 10 * proxy, "rewrite": 10 * rewrite, "judge": 10 * judge}
    cost = slim_cost({"tokens": written, "chat": chat})
    assert [cost[each] for each in written] == pytest.approx([proxy, rewrite, judge])
    assert (cost["chat"], cost["added"]) == pytest.approx((chat, total), abs=0.011)


def test_questions_that_end_early_count_as_well():
    rows = [
        {"question": "a?", "chat": 30, "tokens": {"proxy": 40, "rewrite": 100, "judge": 20}},
        {"question": "b?", "chat": 60, "tokens": {"proxy": 20, "rewrite": 0, "judge": 10}},
        {"question": "c?", "chat": 0},
    ]
    figures = Table.of("", {"": rows}, lambda row: slim_cost(row, ratio=0.2)).figures
    means = {each.measure: each.value for each in figures}
    assert means == pytest.approx(
        {
            "chat": 30.0,
            "proxy": 0.2 * 60 / 3,
            "rewrite": 0.2 * 100 / 3,
            "judge": 0.2 * 30 / 3,
            "added": 0.2 * 190 / 3,
        }
    )


@pytest.mark.parametrize(
    ("row", "options", "field"),
    [
        ({}, {}, "chat"),
        ({"chat": -1}, {}, "chat"),
        ({"chat": 1, "tokens": {"proxy": "many"}}, {}, "proxy"),
        ({"chat": 1, "tokens": 3}, {}, "tokens"),
        ({"chat": 1}, {"ratio": 2}, "ratio"),
    ],
)
def test_wrong_counts_are_refused(row, options, field):
    with pytest.raises(InputError, match=f"{field}` must be"):
        slim_cost(row, **options)
