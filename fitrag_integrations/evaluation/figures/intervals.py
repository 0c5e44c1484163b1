"""How far a figure might have come out otherwise: the bootstrap, and a test for paired answers.

Percentile intervals over resampled questions (Efron, 1979). Two ways of answering the same
questions are compared question by question, since most of their noise is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.progress import tracked
from fitrag_integrations.errors import InputError

Places: TypeAlias = NDArray[np.intp]
Interval: TypeAlias = tuple[float, float]
Values: TypeAlias = "Sequence[float] | NDArray[Any]"


def bootstrap(
    statistic: Callable[[Places], float | None],
    rows: int,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    show_progress: bool | None = False,
) -> Interval | None:
    """Bound a figure over ``resamples`` draws of the rows with replacement.

    ``statistic`` gets the places of the rows drawn, and gives None where the draw does not define
    it. None comes back where fewer than half of the draws did. ``show_progress`` draws a bar.
    """
    check_whole("rows", rows, low=1)
    check_whole("resamples", resamples, low=1)
    tail = (1 - check_number("confidence", confidence, low=0.0, high=1.0)) / 2
    rng = np.random.default_rng(seed)
    numbers = tracked(range(resamples), "Resampling", show=show_progress)
    draws = (statistic(rng.integers(0, rows, rows)) for _ in numbers)
    found = [value for value in draws if value is not None]
    if 2 * len(found) < resamples:
        return None
    low, high = np.quantile(found, [tail, 1 - tail])
    return float(low), float(high)


def share_interval(hits: float, count: int) -> Interval:
    """Bound a share at 95 % (Wilson, 1927), also where all hit or none, as in every draw."""
    check_whole("count", count, low=1)
    z = 1.959964
    share = check_number("hits", hits, low=0, high=count) / count
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    away = z * float(np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2))
    return max(0.0, (middle - away) / scale), min(1.0, (middle + away) / scale)


def outcome_interval(values: Values, *, resamples: int = 1000, seed: int = 0) -> Interval:
    """Bound at 95 % a mean of outcomes in [0, 1]: a share by Wilson's, else by the bootstrap.

    A share is a mean of nothing but 0 and 1; drawn from rows that all hit, or all missed, it has
    no spread to show. Neither counts nor differences are outcomes.
    """
    column = np.asarray(values, float)
    if np.isin(column, (0.0, 1.0)).all():
        return share_interval(float(column.sum()), len(column))
    return mean_interval(column, resamples=resamples, seed=seed)


def mean_interval(
    values: Values, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Bound a mean."""
    column = np.asarray(values, float)
    found = bootstrap(
        lambda places: float(column[places].mean()),
        len(column),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    assert found is not None
    return found


def paired_interval(
    first: Values,
    second: Values,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Bound the mean of ``first`` less that of ``second``, drawing both for the same questions."""
    one, other = _pair(first, second)
    return mean_interval(one - other, confidence=confidence, resamples=resamples, seed=seed)


def mcnemar(first: Values, second: Values) -> float:
    """Give the probability of so lopsided a disagreement by chance, in [0, 1].

    The exact two-sided test (McNemar, 1947) over the questions that only one of the two answered
    correctly; 1.0 where there are none. Needs SciPy.
    """
    one, other = _pair(first, second)
    only_first, only_second = int(np.sum(one > other)), int(np.sum(one < other))
    if not only_first + only_second:
        return 1.0
    stats = require_extra("scipy.stats", extra="evaluate", feature="McNemar's test")
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def _pair(first: Values, second: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(first, float), np.asarray(second, float)
    if one.shape != other.shape or one.ndim != 1 or not one.size:
        given = f"shapes {one.shape} and {other.shape}"
        raise InputError.of("first, second", given=given, allowed="two lists of equal length")
    return one, other
