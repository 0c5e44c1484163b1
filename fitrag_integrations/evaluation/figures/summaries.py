"""Average what is known of each question into the rows of a table, with the bootstrap's bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.intervals import (
    Places,
    bootstrap,
    mcnemar,
    mean_interval,
    paired_interval,
)
from fitrag_integrations.evaluation.ranking import Area

Question: TypeAlias = Row
Figure: TypeAlias = dict[str, Any]
Statistic: TypeAlias = Callable[[Places], float | None]
ALL = "all"


@dataclass(frozen=True, slots=True)
class Draws:
    """Say how the bootstrap draws: how often, and from which seed."""

    resamples: int = 1000
    seed: int = 0


def by_set(questions: Sequence[Question]) -> dict[str, list[Question]]:
    """Give all questions, and where they are of several sets those of each."""
    names = dict.fromkeys(str(each.get("set") or "") for each in questions)
    parts = {ALL: list(questions)}
    if len(names) > 1:
        for name in names:
            parts[name or "-"] = [q for q in questions if str(q.get("set") or "") == name]
    return parts


def column(questions: Iterable[Question], name: str) -> list[float]:
    """Give a value of every question that has it."""
    return [float(q["values"][name]) for q in questions if q["values"].get(name) is not None]


def mean_row(
    questions: Sequence[Question], name: str, draws: Draws, **labels: Any
) -> Figure | None:
    """Average one value; None where no question has it."""
    values = column(questions, name)
    if not values:
        return None
    low, high = mean_interval(values, resamples=draws.resamples, seed=draws.seed)
    told = {"figure": name, **labels, "value": float(np.mean(values))}
    return {**told, "low": low, "high": high, "questions": len(values)}


def area_row(
    questions: Sequence[Question], name: str, draws: Draws, **labels: Any
) -> Figure | None:
    """Compute the area under the ROC curve of one kind of pairs; None where no question has any."""
    area = area_of(questions, name)
    if area is None:
        return None
    size = len(questions)
    bounds = bootstrap(area, size, resamples=draws.resamples, seed=draws.seed) or (None, None)
    told = {"figure": name, **labels, "value": area(np.arange(size))}
    return {**told, "low": bounds[0], "high": bounds[1], "questions": size}


def area_of(questions: Sequence[Question], name: str) -> Callable[[Places], float | None] | None:
    """Give the area over any draw of these questions."""
    pairs = [q.get("pairs", {}).get(name) or [] for q in questions]
    if not any(pairs):
        return None
    scores = [[float(score) for score, _ in each] for each in pairs]
    return Area(scores, [[int(label) for _, label in each] for each in pairs])


def difference(first: Sequence[float], second: Sequence[float], draws: Draws) -> Figure:
    """Compare two ways over the same questions: the second less the first.

    `p` is McNemar's, where every value is 0 or 1.
    """
    low, high = paired_interval(second, first, resamples=draws.resamples, seed=draws.seed)
    told = {
        "difference": float(np.mean(second) - np.mean(first)),
        "difference_low": low,
        "difference_high": high,
    }
    is_binary = {*first, *second} <= {0.0, 1.0}
    return {**told, "p": mcnemar(second, first) if is_binary else None}
