"""Fit the correction of a scorer's `has_answer` on a user's own lists: labels, then prior shift.

Labels give a slope and a shift (Platt, 1999), which a normal prior holds near 1 and 0, so that
fifty are enough. Lists without labels, of the same kind but with more or fewer passages that
answer, move the shift further by expectation maximization (Saerens et al., 2002,
doi:10.1162/089976602753284446). Unlabeled lists alone make calibration worse; see
docs/calibration.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.outcomes import Floats, Interval, calibration_error

LABELS = 50
SLOPE, SHIFT = 0.2, 1.0  # standard deviations of the prior
RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class FittedScores:
    """Correction of `has_answer`, with its errors on held-out lists.

    Attributes:
        slope: Factor of the logit, with its 95 % bootstrap interval in `slope_interval`.
        shift: Shift of the logit, with its interval in `shift_interval`.
        labels: Number of labeled passages.
        errors: Calibration error without and with the correction, by cross-validation over the
            lists.
        losses: Log loss without and with the correction, likewise.
    """

    slope: float
    shift: float
    slope_interval: Interval
    shift_interval: Interval
    labels: int
    errors: tuple[float, float]
    losses: tuple[float, float]


def fit_scores(
    logits: Sequence[Sequence[float]],
    labels: Sequence[Sequence[int]],
    unlabeled: Sequence[Sequence[float]] = (),
    *,
    seed: int = 0,
) -> FittedScores:
    """Fit slope and shift, with bootstrap intervals over the lists.

    Args:
        logits: The scorer's logits of `has_answer`, list by list.
        labels: 1 for each passage that answers, else 0, in the same lists.
        unlabeled: Logits of lists without labels; the shift is adapted to their rate of answers.
        seed: Seed of the resamples.

    Returns:
        The correction; its errors and losses are over labeled lists and leave out the prior shift.

    Raises:
        InputError: If there are fewer than 50 labels, or all are equal.
    """
    x, y = ([np.array(each, dtype=float) for each in given] for given in (logits, labels))
    count = sum(map(len, y))
    refuse_if(
        count < LABELS or len({*np.concatenate(y)}) < 2,
        "has_answer",
        f"{count} labels, {int(sum(map(np.sum, y)))} of them 1",
        f"at least {LABELS} labeled passages, some 1 and some 0",
    )
    others = [np.array(each, dtype=float) for each in unlabeled]
    rng = np.random.default_rng(seed)

    def draw(size: int) -> list[int]:
        return [*map(int, rng.integers(0, size, size))]

    def fitted(lists: Sequence[int], more: Sequence[int]) -> tuple[float, float]:
        mine, gold = (np.concatenate([each[i] for i in lists]) for each in (x, y))
        slope, shift = fit_line(mine, gold)
        if len(more):
            moved = slope * np.concatenate([others[i] for i in more]) + shift
            shift += prior_shift(slope * mine + shift, moved)
        return slope, shift

    drawn = [fitted(draw(len(x)), draw(len(others))) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0).tolist()
    ends = (low[0], high[0]), (low[1], high[1])
    return FittedScores(*fitted(range(len(x)), range(len(others))), *ends, count, *left_out(x, y))


def left_out(x: Sequence[Floats], y: Sequence[Floats]) -> tuple[Interval, Interval]:
    """Compute calibration error and log loss, without the correction and with it.

    Each list is corrected by the fit on the other lists.

    Args:
        x: Logits, list by list.
        y: Labels, likewise.
    """
    corrected = []
    for at in range(len(x)):
        rest = [np.concatenate([*each[:at], *each[at + 1 :], []]) for each in (x, y)]
        slope, shift = fit_line(*rest)
        corrected.append(slope * x[at] + shift)
    gold = np.concatenate(y)
    both = [chances(np.concatenate(each)) for each in (x, corrected)]
    before, after = (calibration_error(p.tolist(), gold.astype(int).tolist()) for p in both)
    return (before, after), (log_loss(both[0], gold), log_loss(both[1], gold))


def fit_line(logits: Floats, labels: Floats) -> tuple[float, float]:
    """Fit the line with the highest posterior, by Newton's method.

    Args:
        logits: Logits. Shape: (pairs,).
        labels: Labels, 0 or 1. Shape: (pairs,).

    Returns:
        Slope and shift.
    """
    inputs, prior = np.stack([logits, np.ones_like(logits)]), np.array([SLOPE, SHIFT]) ** -2
    line = np.array([1.0, 0.0])
    for _ in range(100):
        chance = chances(line @ inputs)
        slope = inputs @ (chance - labels) + prior * (line - [1.0, 0.0])
        step = np.linalg.solve((inputs * chance * (1 - chance)) @ inputs.T + np.diag(prior), slope)
        line -= step / max(1.0, np.abs(step).max())  # a whole step may overshoot far from the mode
        if np.abs(step).max() < 1e-9:
            break
    return float(line[0]), float(line[1])


def prior_shift(reference: Floats, logits: Floats) -> float:
    """Estimate the shift of logits due to another rate of answers (Saerens et al., 2002).

    Args:
        reference: Calibrated logits of lists of the same kind; their mean probability is the prior.
        logits: Calibrated logits of the lists with another prior.
    """
    known = rate = float(np.clip(chances(reference).mean(), 1e-6, 1 - 1e-6))
    for _ in range(2000):
        moved = np.log(rate / (1 - rate)) - np.log(known / (1 - known))
        found = float(np.clip(chances(logits + moved).mean(), 1e-6, 1 - 1e-6))
        if abs(found - rate) < 1e-8:
            break
        rate = found
    return float(moved)


def log_loss(chance: Floats, labels: Floats) -> float:
    """Compute the mean negative log likelihood of labels.

    Args:
        chance: Probabilities in [0, 1].
        labels: Labels, 0 or 1.
    """
    return float(-np.log(np.clip(np.where(labels > 0.5, chance, 1 - chance), 1e-12, 1)).mean())


def chances(logits: Floats) -> Floats:
    """Convert logits to probabilities."""
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))
