"""Choose the cheapest of many settings that surely loses at most so much against a plain one.

Pareto testing (Laufer-Goldshtein et al., 2023, arXiv:2210.07913): on one part of the questions the
settings are put in an order, the surest first and each cheaper than those before it; on the other
part they are tested in that order by Learn-then-Test until one fails. However many there are, the
chosen one loses more with a probability of at most 1 - confidence, for questions like these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.evaluation.outcomes import Floats
from fitrag_integrations.evaluation.thresholds.risk import log_wealth, rows_needed

LEAST_SAVED = 0.05  # of the cost: a setting that saves less is not looked at
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Tried:
    """Hold what a setting came to, an entry a question: whether it was right, and what it cost."""

    right: Floats
    cost: Floats


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold the chosen setting, those tested in their order, and how many of them passed.

    `chosen` is the plain setting where none passed; `reason` then says why.
    """

    chosen: str
    path: tuple[str, ...]
    passed: int
    reason: str = ""


def cheapest(
    tried: Mapping[str, Tried],
    plain: str,
    *,
    order: Places,
    test: Places,
    max_drop: float,
    confidence: float,
    seed: int = 0,
) -> Choice:
    """Choose by the questions at `order` and `test`, which share none.

    The drop is that of the share of right answers against the setting named `plain`.
    """
    check_number("max_drop", max_drop, low=1e-6, high=1 - 1e-6)
    level = 1 - check_number("confidence", confidence, low=1e-6, high=1 - 1e-6)
    path = _path(tried, plain, order, max_drop, level)
    mixed = np.random.default_rng(seed).permutation(test)  # a bet looks at those before it
    passed = 0
    for name in path:
        losses = (tried[plain].right - tried[name].right)[mixed]
        if log_wealth(losses[None], max_drop, level)[0] < -math.log(level):
            break
        passed += 1
    if passed:
        return Choice(path[passed - 1], tuple(path), passed)
    needed = rows_needed(max_drop, confidence)
    reason = (
        "no setting is cheaper"
        if not path
        else f"{len(test)} questions are too few, it takes {needed} at least"
        if len(test) < needed
        else f"a larger drop cannot be ruled out for any of {len(path)} settings"
    )
    return Choice(plain, tuple(path), 0, reason)


def _path(
    tried: Mapping[str, Tried], plain: str, order: Places, max_drop: float, level: float
) -> Sequence[str]:
    """Order the settings by their evidence; keep those cheaper than all before them."""
    lost = np.array([(tried[plain].right - one.right)[order] for one in tried.values()])
    evidence = log_wealth(lost, max_drop, level)
    cost = np.array([one.cost[order].mean() for one in tried.values()])
    names, least = list(tried), (1 - LEAST_SAVED) * float(tried[plain].cost[order].mean())
    path = []
    for at in sorted(range(len(names)), key=lambda i: (-evidence[i], cost[i])):
        if cost[at] < least:
            path.append(names[at])
            least = float(cost[at])
    return path
