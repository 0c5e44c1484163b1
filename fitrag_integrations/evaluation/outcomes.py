"""Outcomes of a gate: accuracy at one threshold, and over all of them (IK, Figure 1).

The sweep stands beside three lines: no retrieval, retrieval for every question, and the oracle,
which is right if either of the two is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_is, check_label, check_number
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.plots import Plot

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]
Interval: TypeAlias = tuple[float, float]
Rows: TypeAlias = "Iterable[Row] | Outcomes"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Labeled questions as columns, one entry per question.

    Args:
        p_known: Probability of the gate, in [0, 1].
        known: 1.0 if the model knows the answer, else 0.0.
        without: 1.0 if the model is right without retrieval; equal to `known` unless the rows have
            both.
        right_with: 1.0 if the model is right with retrieval; None if that was not measured.
    """

    p_known: Floats
    known: Floats
    without: Floats
    right_with: Floats | None = None

    @classmethod
    def of(cls, rows: Rows) -> Outcomes:
        """Build outcomes from labeled rows.

        Args:
            rows: Rows with ``p_known`` (or ``score``), ``known`` (or ``right_without``) and
                optionally ``right_with``, in every row or in none; labels are 0, 1 or booleans.
                `Outcomes` are returned unchanged.

        Raises:
            InputError: If there are no rows, or a field is missing or invalid; names the row and
                the field.
        """
        if isinstance(rows, Outcomes):
            return rows
        given = list(rows)
        refuse_if(not given, "rows", given, "at least one labelled row")

        def column(check: Callable[[str, object], float], *names: str) -> list[float]:
            """Check the first value of these names in every row."""
            found = []
            for at, row in enumerate(given):
                check_is(f"rows[{at}]", row, cast(Any, Mapping), "an object")
                value = next((row[name] for name in names if row.get(name) is not None), None)
                found.append(float(check(f"rows[{at}].{names[0]}", value)))
            return found

        scores = column(partial(check_number, low=0.0, high=1.0), "p_known", "score")
        known = column(
            partial(check_label, allowed="0 or 1, as `fitrag label ik` adds it"),
            *("known", "right_without"),
        )
        without = column(check_label, "right_without", "known")
        tried = any(row.get("right_with") is not None for row in given)
        right = column(check_label, "right_with") if tried else None
        columns = (None if c is None else np.array(c) for c in (scores, known, without, right))
        return cls(*columns)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.p_known)

    def take(self, places: Places) -> Outcomes:
        """Return the questions at these indices, which may repeat."""
        right = None if self.right_with is None else self.right_with[places]
        return Outcomes(self.p_known[places], self.known[places], self.without[places], right)

    @property
    def drops(self) -> Floats:
        """Return the accuracy lost per question without retrieval: 1, 0, or -1 if that helps."""
        allowed = "rows with right_without and right_with"
        return check_is("right_with", self.right_with, np.ndarray, allowed) - self.without

    def share(self, threshold: float) -> float:
        """Return the fraction in [0, 1] of questions with retrieval: not above the threshold."""
        return float(np.mean(self.p_known <= threshold))

    def accuracy(self, threshold: float) -> float:
        """Return the fraction of right answers, with or without retrieval as the gate decides.

        Without ``right_with`` it is the fraction of right decisions about ``known``.
        """
        skipped = self.p_known > threshold
        if self.right_with is None:
            return float(np.mean(skipped == (self.known > 0)))
        return float(np.mean(np.where(skipped, self.without, self.right_with)))

    def drop(self, threshold: float) -> float:
        """Return the accuracy lost against always retrieving; negative if skipping gains."""
        return float(np.sum(self.drops[self.p_known > threshold]) / len(self))


@dataclass(frozen=True, eq=False)
class Curve:
    """Fraction of retrieval and accuracy at every threshold that changes a decision.

    Columns run from always retrieving (threshold 1) down to the minimum of retrieval. Thresholds
    are the midpoints between scores, and half of the lowest score. A question with a score of 0 is
    retrieved for at every threshold, because no threshold is below 0.

    Args:
        thresholds: Thresholds, falling, in [0, 1]. Shape: (points,).
        share: Fraction of questions with retrieval at each, in [0, 1]. Shape: (points,).
        accuracy: Fraction of right answers or, without `right_with`, of right decisions, in
            [0, 1]. Shape: (points,).
    """

    thresholds: Floats
    share: Floats
    accuracy: Floats

    @classmethod
    def of(cls, outcomes: Outcomes) -> Curve:
        """Compute the curve by sorting once; ``n log n`` for n questions."""
        order = np.argsort(-outcomes.p_known, kind="stable")
        scores = outcomes.p_known[order]
        ends = np.flatnonzero(np.append(scores[1:] < scores[:-1], scores[-1] > 0)) + 1
        kept = np.append(0, ends)  # how many are skipped, from none up
        below = np.append(scores, 0.0)[kept[1:]]
        above = scores[kept[1:] - 1]
        middle = (above + below) / 2
        middle = np.where(middle < above, middle, below)  # two neighbouring floats have none
        if outcomes.right_with is None:
            gains, start = 2 * outcomes.known[order] - 1, 1 - float(np.mean(outcomes.known))
        else:
            gains, start = -outcomes.drops[order], float(np.mean(outcomes.right_with))
        total = np.append(0.0, np.cumsum(gains))
        n = len(outcomes)
        return cls(np.append(1.0, middle), 1 - kept / n, start + total[kept] / n)

    @property
    def best(self) -> int:
        """Return the index of the highest accuracy; of ties, the one with the least retrieval."""
        return int(np.flatnonzero(self.accuracy >= self.accuracy.max() - 1e-12)[-1])

    def within(self, share: float) -> int | None:
        """Return the index of the most retrieval that is at most `share`; None if there is none."""
        allowed = np.flatnonzero(self.share <= share + 1e-12)
        return int(allowed[0]) if len(allowed) else None


def calibration_error(scores: Sequence[float], labels: Sequence[int], *, bins: int = 10) -> float:
    """Compute the expected calibration error over equal-width bins (Naeini et al., 2015).

    Args:
        scores: Probabilities in [0, 1].
        labels: Labels, 0 or 1.
        bins: Number of bins.

    Returns:
        The error in [0, 1]; 0.0 without scores.
    """
    sums = [0.0] * bins
    for score, label in zip(scores, labels, strict=True):
        sums[min(bins - 1, int(score * bins))] += score - label
    return sum(map(abs, sums)) / len(scores) if scores else 0.0


def sweep_plot(outcomes: Outcomes, threshold: float) -> Plot:
    """Build the plot of the sweep (IK, Figure 1).

    Args:
        outcomes: Labeled questions.
        threshold: Threshold in use, which is marked.
    """
    curve, levels = Curve.of(outcomes), dict[str, float]()
    if outcomes.right_with is not None:
        lines = {
            "no retrieval": outcomes.without,
            "always": outcomes.right_with,
            "oracle": np.maximum(outcomes.without, outcomes.right_with),
        }
        levels = {name: float(np.mean(right)) for name, right in lines.items()}
    points = zip(curve.share.tolist(), curve.accuracy.tolist(), strict=True)
    return Plot(
        "sweep",
        "share of questions retrieved for",
        "accuracy",
        {"gate": [list(point) for point in points]},
        levels,
        {f"threshold {threshold:g}": (outcomes.share(threshold), outcomes.accuracy(threshold))},
    )


def area(outcomes: Outcomes) -> float | None:
    """Measure how well a gate orders the questions, at all thresholds.

    It is the area between the gate's curve and the straight line from never to always retrieving,
    divided by the same area for the oracle's order: 1 for the oracle, 0 for a random gate, and
    negative for a worse one. The curve joins its points by straight lines over fractions from 0 to
    1. The oracle retrieves first for questions that only retrieval answers, then for those where it
    makes no difference, and last for those that are right only without retrieval.

    Returns:
        The area; None if retrieval changes no answer, or all in the same way.
    """
    drops, without, curve = outcomes.drops, float(np.mean(outcomes.without)), Curve.of(outcomes)
    helped, hurt = float(np.mean(drops > 0)), float(np.mean(drops < 0))
    room = (helped * (1 - helped) + hurt * (1 - hurt)) / 2  # the oracle's area less the line's
    if not room:
        return None
    share = np.append(curve.share, 0.0)  # down to never, which a score of 0 keeps out of reach
    accuracy = np.append(curve.accuracy, without)
    under = float(np.sum((accuracy[1:] + accuracy[:-1]) / 2 * (share[:-1] - share[1:])))
    line = without + (helped - hurt) / 2
    return (under - line) / room
