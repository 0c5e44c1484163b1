"""Outcomes of a gate: the sweep over its thresholds, and the calibration of its scores."""

import numpy as np
import pytest
from gate_rows import FIVE, ROWS, calibrated, draw, useless
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.evaluation.outcomes import (
    Curve,
    Outcomes,
    area,
    calibration_error,
    sweep_plot,
)
from fitrag_integrations.evaluation.ranking import auc


def test_points_and_lines_by_hand():
    curve, plot = Curve.of(Outcomes.of(ROWS)), sweep_plot(Outcomes.of(ROWS), 0.5)
    expected = [(1, 0.8), (0.8, 0.8), (0.6, 1.0), (0.4, 0.8), (0.2, 0.8), (0, 0.6)]
    assert np.allclose(list(zip(curve.share, curve.accuracy, strict=True)), expected)
    assert np.allclose(plot.series["gate"], expected)
    assert plot.levels == pytest.approx({"no retrieval": 0.6, "always": 0.8, "oracle": 1.0})


def test_the_area_by_hand():
    # curve: five trapezes of width .2; line: mean of .6 and .8; oracle: up .4, flat to .8, down .2
    curve = 0.2 * (0.8 + 0.9 + 0.9 + 0.8 + 0.7)
    oracle = 0.4 * 0.8 + 0.4 * 1.0 + 0.2 * 0.9
    assert area(Outcomes.of(ROWS)) == pytest.approx((curve - 0.7) / (oracle - 0.7))


def test_the_area_of_oracle_coin_and_liar():
    rng = np.random.default_rng(5)
    rows = draw(useless, rng, 4000)
    oracle = Outcomes((1 - rows.drops) / 2 * 0.9 + 0.05, rows.known, rows.without, rows.right_with)
    liar = Outcomes(1 - oracle.p_known, rows.known, rows.without, rows.right_with)
    assert area(oracle) == pytest.approx(1.0)
    assert area(liar) < -0.9
    assert area(rows) == pytest.approx(0.0, abs=0.08)
    same = Outcomes(np.full(4000, 0.5), rows.known, rows.without, rows.right_with)
    assert area(same) == pytest.approx(0.0)  # one tie: straight from never to always


def test_without_retrieved_answers_there_are_no_lines():
    plot = sweep_plot(Outcomes.of([{"p_known": p, "known": a} for p, a, _ in FIVE]), 0.5)
    assert plot.levels == {}
    assert max(accuracy for _, accuracy in plot.series["gate"]) == pytest.approx(0.8)


@pytest.mark.parametrize("right", [(1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("count", [1, 4])
def test_no_area_where_retrieval_changes_nothing_or_all_alike(right, count):
    said = {"right_without": right[0], "right_with": right[1]}
    assert area(Outcomes.of([{"p_known": 0.2 * i, **said} for i in range(count)])) is None


def test_auc_by_hand_and_with_ties():
    # three known (.9 .8 .3), two not (.6 .1): five of six pairs in order
    rows = Outcomes.of(ROWS)
    assert auc(rows.p_known, rows.known) == pytest.approx(5 / 6)
    assert auc([0.5, 0.5, 0.5], [0, 1, 1]) == pytest.approx(0.5)
    assert auc([0.5], [1]) is None


def test_accuracy_and_calibration_of_the_gate():
    alone = Outcomes.of([{"p_known": p, "known": a} for p, a, _ in FIVE])
    assert (alone.accuracy(0.5), alone.accuracy(0.2)) == pytest.approx((3 / 5, 4 / 5))
    expected = (0.1 + 0.2 + 0.6 + 0.7 + 0.1) / 5
    columns = [p for p, _, _ in FIVE], [known for _, known, _ in FIVE]
    assert calibration_error(*columns) == pytest.approx(expected)
    good = draw(calibrated, np.random.default_rng(3), 5000)
    assert calibration_error(good.p_known.tolist(), good.known.tolist()) < 0.03


@pytest.mark.parametrize(
    ("scores", "labels", "bins", "expected"),
    [
        # below a half: mean score 0.3, none right; above: mean 0.8, 1 of 2 right
        ([0.2, 0.4, 0.9, 0.7], [0, 0, 1, 0], 2, 0.5 * abs(0.3 - 0) + 0.5 * abs(0.8 - 0.5)),
        ([0.2, 0.4, 0.9, 0.7], [0, 0, 1, 0], 1, abs(0.55 - 0.25)),
        # bins are of equal width and closed on the left: the first two share one and cancel
        ([0.5, 0.59], [0, 1], 10, abs(0.5 + 0.59 - 1) / 2),
        ([0.5, 0.6], [0, 1], 10, (0.5 + 0.4) / 2),
        ([1.0, 0.0], [1, 0], 10, 0),
        ([1.0, 0.0], [0, 1], 10, 1),
        ([], [], 10, 0),
    ],
)
def test_the_error_by_hand(scores, labels, bins, expected):
    assert calibration_error(scores, labels, bins=bins) == pytest.approx(expected)
    with pytest.raises(ValueError):  # lists of unequal length
        calibration_error([*scores, 0.5], labels)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), max_size=30), st.integers(1, 20))
def test_the_error_is_in_range_whatever_the_order(rows, bins):
    scores, labels = [s for s, _ in rows], [label for _, label in rows]
    found = calibration_error(scores, labels, bins=bins)
    assert -1e-9 <= found <= 1 + 1e-9
    assert found == pytest.approx(calibration_error(scores[::-1], labels[::-1], bins=bins))
