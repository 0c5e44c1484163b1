"""The account of cost against the paper's Table 4."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import CostAccount, cost_account
from fitrag_integrations.types import Context

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
    account = cost_account([written], [chat])
    assert (account.proxy, account.rewrite, account.judge) == pytest.approx((proxy, rewrite, judge))
    assert account.total == pytest.approx(total, abs=0.011)
    assert account.share == pytest.approx(total / chat, abs=1e-3)


def test_questions_that_end_early_count_as_well():
    contexts = [
        Context("a?", details={"tokens": {"proxy": 40, "rewrite": 100, "judge": 20}}),
        Context("b?", details={"tokens": {"proxy": 20, "rewrite": 0, "judge": 10}}),
        Context("c?"),
    ]
    account = cost_account(contexts, [30, 60, 0], ratio=0.2)
    assert (account.chat, account.rows, account.ratio) == (30.0, 3, 0.2)
    assert account.proxy == pytest.approx(0.2 * 60 / 3)
    assert account.rewrite == pytest.approx(0.2 * 100 / 3)
    assert account.judge == pytest.approx(0.2 * 30 / 3)
    told = account.to_dict()
    assert told["total"] == pytest.approx(0.2 * 190 / 3)
    assert told["share"] == pytest.approx(0.2 * 190 / 90)
    assert CostAccount.from_dict(told) == account


@pytest.mark.parametrize(
    ("contexts", "chat", "options", "field"),
    [
        ([], [], {}, "chat"),
        ([{}], [1, 2], {}, "chat"),
        ([{}], [-1], {}, "chat"),
        ([{"proxy": "many"}], [1], {}, "proxy"),
        ([Context("a?", details={"tokens": 3})], [1], {}, "tokens"),
        ([{}], [1], {"ratio": 2}, "ratio"),
    ],
)
def test_wrong_counts_are_refused(contexts, chat, options, field):
    with pytest.raises(InputError, match=f"{field}` must be"):
        cost_account(contexts, chat, **options)
