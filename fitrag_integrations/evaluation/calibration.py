"""How well probabilities mean what they say."""

from __future__ import annotations

from collections.abc import Sequence


def calibration_error(scores: Sequence[float], labels: Sequence[int], *, bins: int = 10) -> float:
    """Give the expected calibration error in [0, 1] over equal-width bins (Naeini et al., 2015)."""
    sums = [0.0] * bins
    for score, label in zip(scores, labels, strict=True):
        sums[min(bins - 1, int(score * bins))] += score - label
    return sum(map(abs, sums)) / len(scores) if scores else 0.0
