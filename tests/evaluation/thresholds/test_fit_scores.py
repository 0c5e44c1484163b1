"""The correction of `has_answer`: its equations, what it gains, and what it refuses."""

import numpy as np
import pytest

from fitrag_integrations.evaluation.thresholds.scores import (
    chances,
    fit_line,
    fit_scores,
    log_loss,
    prior_shift,
)


def lists(count, *, slope=1.0, shift=0.0, rate=0.2, seed=0):
    """Draw lists of ten logits whose true log odds are `slope * logit + shift`."""
    rng = np.random.default_rng(seed)
    gold = (rng.random((count, 10)) < rate).astype(int)
    true = np.log(rate / (1 - rate)) + np.where(gold, 2.0, -2.0) + 2 * rng.normal(size=gold.shape)
    return ((true - shift) / slope).tolist(), gold.tolist()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        tuple(np.ravel(each) for each in lists(30, shift=-1.0)),
        (np.linspace(-5.4, -2.0, 64), np.arange(64) % 4 == 0),  # a whole Newton step overshoots
    ],
)
def test_line_is_the_posterior_mode(x, y):
    slope, shift = fit_line(x, y)
    error = chances(slope * x + shift) - y
    assert error @ x + (slope - 1) / 0.2**2 == pytest.approx(0, abs=1e-6)
    assert error.sum() + shift / 1.0**2 == pytest.approx(0, abs=1e-6)


def test_without_evidence_nothing_changes():
    assert fit_line(np.array([0.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx((1.0, 0.0))


@pytest.mark.parametrize(("slope", "shift"), [(1.0, -2.0), (0.6, 0.0), (1.0, 1.5)])
def test_fit_gains_on_other_lists(slope, shift):
    fitted = fit_scores(*lists(40, slope=slope, shift=shift))
    x, y = (np.ravel(each) for each in lists(400, slope=slope, shift=shift, seed=1))
    after = log_loss(chances(fitted.slope * x + fitted.shift), y)
    assert after < log_loss(chances(x), y)
    assert fitted.losses[1] < fitted.losses[0] and fitted.labels == 400
    for value, (low, high) in (
        (fitted.slope, fitted.slope_interval),
        (fitted.shift, fitted.shift_interval),
    ):
        assert low <= value <= high


def test_sound_scores_gain_nothing():
    fitted = fit_scores(*lists(8, seed=3))
    assert fitted.losses[1] == pytest.approx(fitted.losses[0], abs=0.02)
    assert fitted.shift_interval[0] < 0 < fitted.shift_interval[1]


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_prior_shift_is_that_of_the_rates(rate):
    reference, other = (np.ravel(lists(2000, rate=r, seed=5)[0]) for r in (0.2, rate))
    as_scored = other - np.log(rate / (1 - rate)) + np.log(0.2 / 0.8)  # by who knows rate 0.2
    expected = np.log(rate / (1 - rate)) - np.log(0.2 / 0.8)
    assert prior_shift(reference, as_scored) == pytest.approx(expected, abs=0.15)
    assert prior_shift(reference, reference) == pytest.approx(0.0, abs=1e-6)


def test_unlabeled_lists_move_the_shift_alone():
    x, y = lists(40)
    plain, moved = fit_scores(x, y), fit_scores(x, y, np.subtract(x, 1.0).tolist())
    assert moved.slope == plain.slope and moved.shift < plain.shift - 0.5
