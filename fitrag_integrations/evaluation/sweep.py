"""Run a threshold over all its values: accuracy against share of retrieval (IK, Figure 1).

Beside the curve stand three lines: no retrieval, retrieval for every question, and the oracle,
which is right wherever either of the two is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import Record
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes, Rows, calibration_error


@dataclass(frozen=True, slots=True)
class SweepPoint(Record):
    """Hold what one threshold gives: share of questions retrieved for, and accuracy, in [0, 1]."""

    threshold: float
    share: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Sweep(Record):
    """Hold a gate's curve and what it is compared with.

    ``points`` run from always retrieving to the least retrieval there can be, one for each
    threshold that makes a difference. ``never``, ``always`` and ``oracle`` are accuracies, None for
    rows without ``right_with``: the accuracy of a point is then that of the gate about ``known``.
    """

    _nested: ClassVar = {"points": SweepPoint}

    points: tuple[SweepPoint, ...]
    rows: int
    never: float | None = None
    always: float | None = None
    oracle: float | None = None
    area: float | None = None

    @classmethod
    def of(cls, rows: Rows) -> Sweep:
        """Sweep over labelled rows, as ``choose_threshold`` takes them.

        ``area`` says how well the gate orders the questions, whatever the threshold: the area
        between its curve and the straight line from never to always, over the same area for the
        oracle's order. 1 is the oracle, 0 a gate that tosses a coin, less is worse than that. The
        curve joins its points by straight lines over shares from 0 to 1. The oracle retrieves
        first where retrieval alone is right, then where it makes no difference, and last where
        only the answer without it is right. None where retrieval changes no answer, or all alike.
        """
        outcomes = Outcomes.of(rows)
        curve = Curve.of(outcomes)
        columns = (curve.thresholds, curve.share, curve.accuracy)
        points = tuple(SweepPoint(*map(float, row)) for row in zip(*columns, strict=True))
        if outcomes.right_with is None:
            return cls(points, len(outcomes))
        return cls(
            points,
            len(outcomes),
            float(np.mean(outcomes.without)),
            float(np.mean(outcomes.right_with)),
            float(np.mean(np.maximum(outcomes.without, outcomes.right_with))),
            area(outcomes, curve),
        )

    @property
    def best_point(self) -> SweepPoint:
        """Give the point of the highest accuracy, of equals the one with the least retrieval."""
        return max(self.points, key=lambda point: (round(point.accuracy, 12), -point.share))

    def point_at_share(self, share: float) -> SweepPoint | None:
        """Give the point that retrieves most among those that retrieve at most ``share``."""
        check_number("share", share, low=0.0, high=1.0)
        return next((point for point in self.points if point.share <= share + 1e-12), None)


def area(outcomes: Outcomes, curve: Curve | None = None) -> float | None:
    """Give ``Sweep.area`` alone."""
    drops, without = outcomes.drops, float(np.mean(outcomes.without))
    curve = Curve.of(outcomes) if curve is None else curve
    helped, hurt = float(np.mean(drops > 0)), float(np.mean(drops < 0))
    room = (helped * (1 - helped) + hurt * (1 - hurt)) / 2  # the oracle's area less the line's
    if not room:
        return None
    share = np.append(curve.share, 0.0)  # down to never, which a score of 0 keeps out of reach
    accuracy = np.append(curve.accuracy, without)
    under = float(np.sum((accuracy[1:] + accuracy[:-1]) / 2 * (share[:-1] - share[1:])))
    line = without + (helped - hurt) / 2
    return (under - line) / room


def gate_auc(outcomes: Outcomes) -> float | None:
    """Give the area under the gate's ROC curve against ``known``, ties counted half.

    The chance that a known question has a higher score than one that is not; None where all
    questions are of one kind. Needs SciPy.
    """
    known = outcomes.known > 0
    positive, negative = int(known.sum()), int((~known).sum())
    if not positive or not negative:
        return None
    stats = require_extra("scipy.stats", extra="evaluate", feature="the AUC of a gate")
    ranks = float(stats.rankdata(outcomes.p_known)[known].sum())
    return (ranks - positive * (positive + 1) / 2) / (positive * negative)


def gate_accuracy(outcomes: Outcomes, threshold: float = 0.5) -> float:
    """Give the share of questions about which the gate is right, retrieval aside."""
    return float(np.mean((outcomes.p_known > threshold) == (outcomes.known > 0)))


def gate_calibration_error(outcomes: Outcomes) -> float:
    """Give the expected calibration error of ``p_known`` against ``known`` in ten bins."""
    return calibration_error(outcomes.p_known.tolist(), outcomes.known.astype(int).tolist())
