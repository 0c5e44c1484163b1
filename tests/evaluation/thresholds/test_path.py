"""The cheapest setting that surely loses little: found where it is, refused where it is not."""

import numpy as np

from fitrag_integrations.evaluation.thresholds.risk import Tried, cheapest

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
