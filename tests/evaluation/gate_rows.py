"""Questions of a known distribution, so that the true drop of every threshold is known."""

import numpy as np

from fitrag_integrations.evaluation.outcomes import Outcomes

# p_known, right without, right with
FIVE = [(0.9, 1, 1), (0.8, 1, 0), (0.6, 0, 1), (0.3, 1, 1), (0.1, 0, 1)]
ROWS = [{"question": "q", "p_known": p, "right_without": a, "right_with": b} for p, a, b in FIVE]


def calibrated(rng, n):
    """A gate that means what it says; skipping gains at first and loses later."""
    p = rng.beta(0.6, 0.9, n)
    return p, rng.random(n) < p, rng.random(n) < 0.25 + 0.6 * p


def useless(rng, n):
    """A gate that tosses a coin: the drop grows with every question skipped."""
    known = rng.random(n) < 0.34
    return rng.random(n), known, np.where(known, rng.random(n) < 0.8, rng.random(n) < 0.32)


def plateau(rng, n):
    """Just above two points over most of the thresholds, the hardest place not to pass."""
    p = rng.random(n)
    top = p > 0.7
    known = rng.random(n) < np.where(top, 0.2, 0.4)
    return p, known, np.where(top, known | (rng.random(n) < 0.0205 / 0.3 / 0.8), known)


def bump(rng, n):
    """Above two points, then far below, then above: the drop neither grows nor shrinks."""
    p = rng.random(n)
    gap = np.select([p > 0.9, p > 0.5], [0.25, -0.2], 0.3)
    return p, rng.random(n) < 0.5 - gap / 2, rng.random(n) < 0.5 + gap / 2


def crowded(rng, n):
    """A gate that is nearly always sure, as fine-tuned ones are."""
    sure = rng.random(n) < 0.5
    p = 1 / (1 + np.exp(-rng.normal(np.where(sure, 7, -7), 2)))
    return p, rng.random(n) < np.where(sure, 0.8, 0.2), rng.random(n) < np.where(sure, 0.85, 0.6)


REGIMES = [calibrated, useless, plateau, bump, crowded]


def draw(regime, rng, n):
    p, known, right_with = regime(rng, n)
    known = known.astype(float)
    return Outcomes(p, known, known, right_with.astype(float))


def rows_of(outcomes):
    columns = (outcomes.p_known, outcomes.known, outcomes.right_with)
    return [
        {"question": f"part {i} ?", "p_known": float(p), "right_without": int(k), "right_with": w}
        for i, (p, k, w) in enumerate(zip(*columns, strict=True))
    ]
