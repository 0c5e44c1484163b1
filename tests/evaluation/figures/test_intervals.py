"""Intervals that cover what they should, and a test for paired answers."""

import numpy as np
import pytest
from scipy import stats

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figure import (
    bootstrap,
    mcnemar,
    mean_interval,
    outcome_interval,
    paired_interval,
    share_interval,
)


def test_the_same_interval_as_scipy():
    values = np.random.default_rng(2).normal(size=60)
    ours = mean_interval(values, confidence=0.9, resamples=4000)
    theirs = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, n_resamples=4000, method="percentile", rng=0
    ).confidence_interval
    assert ours == pytest.approx(tuple(theirs), abs=0.02)
    assert all(type(bound) is float for bound in ours)


def test_pairing_takes_out_what_questions_have_in_common():
    rng = np.random.default_rng(4)
    first = rng.normal(scale=5, size=200)
    low, high = paired_interval(first, first - 0.1 + rng.normal(scale=0.1, size=200))
    assert 0.05 < low < 0.1 < high < 0.15
    alone = mean_interval(first)
    assert alone[1] - alone[0] > 10 * (high - low)


def test_draws_that_define_nothing():
    assert bootstrap(lambda places: None, 5, resamples=10) is None
    found = bootstrap(lambda places: 1.0 if 0 in places else None, 3, resamples=50)
    assert found == (1.0, 1.0)


def test_mcnemar_by_hand():
    first, second = [1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]
    assert mcnemar(first, second) == pytest.approx(2 * 0.5**4)  # four of four
    assert mcnemar(second, first) == mcnemar(first, second)
    assert mcnemar(first, first) == 1.0


@pytest.mark.parametrize("compare", [paired_interval, mcnemar])
@pytest.mark.parametrize(("first", "second"), [([1], [1, 0]), ([], []), ([[1]], [[1]])])
def test_lists_that_are_no_pairs(compare, first, second):
    with pytest.raises(InputError):
        compare(first, second)


def test_a_share_of_all_is_not_sure():
    for hits, count in ((46, 46), (0, 5), (39, 40), (3, 10)):
        wanted = stats.binomtest(hits, count).proportion_ci(method="wilson")
        assert share_interval(hits, count) == pytest.approx((wanted.low, wanted.high), abs=1e-6)


def test_outcomes_are_a_share_where_nothing_else_can_be():
    assert outcome_interval([1, 1, 1, 0]) == share_interval(3, 4)
    assert outcome_interval(np.ones(22)) == share_interval(22, 22)
    graded = [0.0, 0.5, 1.0, 1.0]
    assert outcome_interval(graded, seed=3) == mean_interval(graded, seed=3)
