"""What a gate said of each question, and what came of answering it with and without retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_label, check_number
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = "Iterable[Row] | Outcomes"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Hold labelled questions as columns, one entry a question.

    ``p_known`` in [0, 1] is the gate's; ``known`` is 1.0 where the model knows the answer, else
    0.0, and ``without`` where it is right without retrieval, which is the same unless rows tell
    both. ``right_with``, 1.0 where it is right with retrieval, is None where nobody tried.
    """

    p_known: Floats
    known: Floats
    without: Floats
    right_with: Floats | None = None

    @classmethod
    def of(cls, rows: Rows) -> Outcomes:
        """Read rows with ``p_known`` or ``score``, ``known`` or ``right_without``, ``right_with``.

        Labels are 0, 1 or booleans; ``right_with`` stands in every row or in none. Raises
        ``InputError`` naming the row and the field.
        """
        if isinstance(rows, Outcomes):
            return rows
        given = list(rows)
        if not given:
            raise InputError.of("rows", given=given, allowed="at least one labelled row")
        scores = [_score(row, at) for at, row in enumerate(given)]
        known = [_label(row, at, "known", "right_without") for at, row in enumerate(given)]
        without = [_label(row, at, "right_without", "known") for at, row in enumerate(given)]
        tried = any(row.get("right_with") is not None for row in given)
        right = [_label(row, at, "right_with") for at, row in enumerate(given)] if tried else None
        columns = (None if c is None else np.array(c) for c in (scores, known, without, right))
        return cls(*columns)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.p_known)

    def take(self, places: NDArray[np.intp]) -> Outcomes:
        """Give the questions at these places, which may repeat."""
        right = None if self.right_with is None else self.right_with[places]
        return Outcomes(self.p_known[places], self.known[places], self.without[places], right)

    @property
    def drops(self) -> Floats:
        """Say what skipping retrieval costs each question: 1, 0, or -1 where it helps."""
        if self.right_with is None:
            allowed = "rows with right_without and right_with"
            raise InputError.of("right_with", given=None, allowed=allowed)
        return self.right_with - self.without

    def share(self, threshold: float) -> float:
        """Give the share of questions retrieved for: those not above the threshold."""
        return float(np.mean(self.p_known <= threshold))

    def accuracy(self, threshold: float) -> float:
        """Give the share of right answers, each with or without retrieval as the gate says.

        Without ``right_with`` it is the share of questions whose gate is right about ``known``.
        """
        skipped = self.p_known > threshold
        if self.right_with is None:
            return float(np.mean(skipped == (self.known > 0)))
        return float(np.mean(np.where(skipped, self.without, self.right_with)))

    def drop(self, threshold: float) -> float:
        """Give the accuracy lost against always retrieving; negative where skipping gains."""
        return float(np.sum(self.drops[self.p_known > threshold]) / len(self))


@dataclass(frozen=True, eq=False)
class Curve:
    """Hold the share of retrieval and the accuracy at every threshold that makes a difference.

    Columns run from always retrieving (threshold 1) down to the least retrieval there can be. A
    threshold lies halfway between two scores, and under the lowest one at half of it. A question
    with a score of 0 is retrieved for at every threshold, since none lies under 0.
    """

    thresholds: Floats
    share: Floats
    accuracy: Floats

    @classmethod
    def of(cls, outcomes: Outcomes) -> Curve:
        """Sort once and sum up; ``n log n`` for n questions."""
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
        """Give the place of the highest accuracy, of equals the one with the least retrieval."""
        at_best = np.flatnonzero(self.accuracy >= self.accuracy.max() - 1e-12)
        return int(at_best[-1])

    def within(self, share: float) -> int | None:
        """Give the place that retrieves most among those that retrieve at most this share."""
        allowed = np.flatnonzero(self.share <= share + 1e-12)
        return int(allowed[0]) if len(allowed) else None


def _score(row: Row, at: int) -> float:
    if not isinstance(row, Mapping):
        raise InputError.of(f"rows[{at}]", given=row, allowed="an object")
    value = row.get("p_known")
    value = row.get("score") if value is None else value
    return check_number(f"rows[{at}].p_known", value, low=0.0, high=1.0)


def _label(row: Row, at: int, *names: str) -> float:
    value = next((row[name] for name in names if row.get(name) is not None), None)
    return float(check_label(f"rows[{at}].{names[0]}", value))


def calibration_error(scores: Sequence[float], labels: Sequence[int], *, bins: int = 10) -> float:
    """Give the expected calibration error in [0, 1] over equal-width bins (Naeini et al., 2015)."""
    sums = [0.0] * bins
    for score, label in zip(scores, labels, strict=True):
        sums[min(bins - 1, int(score * bins))] += score - label
    return sum(map(abs, sums)) / len(scores) if scores else 0.0
