"""Guarantees on accuracy: certified and conformal thresholds, and the cheapest of some settings."""

import functools
import math

import numpy as np
import pytest
from gate_rows import REGIMES, calibrated, draw, useless

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.evaluation.thresholds.risk import (
    ALWAYS,
    Tried,
    certified_threshold,
    cheapest,
    conformal_threshold,
    log_wealth,
    rows_needed,
)

SPLITS = 200


def splits(regime, rows, choose):
    """Fit on half of `2 * rows` questions, 200 times; give drops in the world and in the rest."""
    rng = np.random.default_rng(7)
    world = draw(regime, rng, 20_000)
    found = []
    for _ in range(SPLITS):
        places = rng.integers(0, len(world), 2 * rows)
        threshold = choose(world.take(places[:rows]))
        rest = world.take(places[rows:])
        found.append((world.drop(threshold), rest.drop(threshold), world.share(threshold)))
    return np.array(found)


@functools.cache
def certified(regime, rows):
    return splits(regime, rows, lambda half: certified_threshold(half, 0.02, 0.9))


@pytest.mark.parametrize(
    ("regime", "rows"), [*((r, 250) for r in REGIMES), (calibrated, 600), (useless, 600)]
)
def test_a_drop_of_two_points_at_ninety_percent_is_kept_in_all_but_twelve(regime, rows):
    found = certified(regime, rows)
    assert np.mean(found[:, 0] > 0.02) <= 0.12
    assert np.mean(found[:, 1] > 0.02) <= 0.12  # on the other half, whose noise comes on top


def test_the_check_above_can_fail():
    def naive(half):
        """Take the lowest threshold that is good on the sample, as one would without a promise."""
        grid = np.linspace(1, 0, 50)
        return min(t for t in grid if half.drop(t) <= 0.02)

    assert np.mean(splits(useless, 240, naive)[:, 0] > 0.02) > 0.3


def test_certification_saves_retrieval():
    found = certified(calibrated, 600)
    assert np.mean(found[:, 2] < 1) == 1  # something certified each time
    assert 0.5 < np.mean(found[:, 2]) < 0.65  # and a third of the questions skipped or more


def test_the_conformal_promise_is_about_the_mean():
    found = splits(useless, 240, lambda half: conformal_threshold(half, 0.05))
    assert np.mean(found[:, 0]) <= 0.05
    assert np.mean(found[:, 2]) < 0.95


def test_wealth_by_hand():
    # nothing lost, claim 0.5: values 1/2 against 3/4, the first bet bound by the variance 1/4
    rows, level = 2, 0.5
    first = math.sqrt(2 * math.log(2) / (rows * 0.25))
    spread = (0.25 + 0) / 2  # after one value of 1/2, the mean of which is 1/2
    second = min(math.sqrt(2 * math.log(2) / (rows * spread)), 0.9 / 0.25)
    expected = math.log1p(first * 0.25) + math.log1p(second * 0.25)
    assert log_wealth(np.zeros((1, 2)), 0.5, level) == pytest.approx([expected])


def test_wealth_rarely_grows_where_the_claim_is_true():
    rng = np.random.default_rng(3)
    losses = rng.choice([-1.0, 0.0, 1.0], p=[0.04, 0.9, 0.06], size=(4000, 150))  # mean 0.02
    assert np.mean(log_wealth(losses, 0.02, 0.1) >= -math.log(0.1)) <= 0.1


def test_too_few_rows_promise_nothing():
    needed = rows_needed(0.02, 0.9)
    assert needed == 127
    best = Outcomes(np.full(100, 0.9), np.ones(100), np.ones(100), np.zeros(100))
    assert best.drop(0.5) == -1
    assert certified_threshold(best, 0.02, 0.9) == ALWAYS


def test_an_early_failure_ends_the_search_whatever_comes_after():
    """Five losses above 0.9 in 300 rows; from there on skipping gains again."""
    p = np.concatenate([np.full(12, 0.95), np.full(288, 0.4)])
    with_ = np.concatenate([np.ones(12), np.zeros(288)])
    rows = Outcomes(p, 1 - with_, 1 - with_, with_)
    assert rows.drop(0.3) < -0.9
    assert certified_threshold(rows, 0.02, 0.9) == ALWAYS


def test_the_conformal_threshold_by_hand():
    # 99 rows; skipping the k highest loses the answers of the first ones
    p = np.linspace(0.99, 0.01, 99)
    with_ = np.array([1.0] * 3 + [0.0] * 96)
    rows = Outcomes(p, 0 * p, 0 * p, with_)
    # (1 + 1) / 100 is allowed, (2 + 1) / 100 is not: skip the first row alone
    threshold = conformal_threshold(rows, 0.02)
    assert p[1] <= threshold < p[0]
    assert conformal_threshold(rows, 0.005) == ALWAYS


@pytest.mark.parametrize(("drop", "sure"), [(0, 0.9), (1, 0.9), (0.02, 1), (0.02, 0), ("a", 0.9)])
def test_promises_nobody_can_make(drop, sure):
    known = np.array([0.5]), np.ones(1), np.ones(1)
    with pytest.raises(InputError):
        certified_threshold(Outcomes(*known, np.ones(1)), drop, sure)
    with pytest.raises(InputError, match="right_with"):
        certified_threshold(Outcomes(*known), 0.02, 0.9)


WISH = {"max_drop": 0.1, "confidence": 0.9}


def tried(rng, rows, drops):
    """Draw settings that lose so much of a plain one, each half as dear as the one before."""
    plain = (rng.random(rows) < 0.8).astype(float)
    made = {"plain": Tried(plain, np.full(rows, 100.0))}
    for at, drop in enumerate(drops, start=1):
        right = np.where(rng.random(rows) < drop / 0.8, 0.0, plain)
        made[f"cut {at}"] = Tried(right, np.full(rows, 100.0 / 2**at))
    return made


def parts(rows):
    return {"order": np.arange(rows // 2), "test": np.arange(rows // 2, rows)}


def test_the_cheapest_that_keeps_the_answers_is_found():
    made = tried(np.random.default_rng(0), 600, (0.0, 0.01, 0.4))
    choice = cheapest(made, "plain", **parts(600), **WISH)
    assert choice.chosen == "cut 2" and choice.passed > 0 and choice.reason == ""


def test_a_promise_is_broken_no_more_often_than_said():
    rng, broken = np.random.default_rng(1), 0
    for _ in range(200):
        made = tried(rng, 400, (0.11, 0.12, 0.13))  # each loses more than is allowed
        broken += cheapest(made, "plain", **parts(400), **WISH).passed > 0
    assert broken <= 0.1 * 200


def test_reasons_for_staying_plain():
    rng = np.random.default_rng(2)
    few = cheapest(tried(rng, 20, (0.0,)), "plain", **parts(20), **WISH)
    assert few.chosen == "plain" and "10 questions are too few, it takes" in few.reason
    bad = cheapest(tried(rng, 400, (0.5,)), "plain", **parts(400), **WISH)
    assert "cannot be ruled out for any of 1 settings" in bad.reason
    dear = tried(rng, 400, ())
    assert cheapest(dear, "plain", **parts(400), **WISH).reason == "no setting is cheaper"
