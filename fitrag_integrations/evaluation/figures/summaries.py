"""Average what is known of each question into figures, each with its bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np

from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.figure import (
    ALL,
    Change,
    Figure,
    Interval,
    Places,
    Values,
    bootstrap,
    mcnemar,
    mean_interval,
    outcome_interval,
    paired_interval,
)
from fitrag_integrations.evaluation.ranking import Area

Question: TypeAlias = Row
Statistic: TypeAlias = Callable[[Places], float | None]
SECONDS, COST = "seconds", "cost of a thousand questions"
COUNTED = ("retriever_calls", "llm_calls", "tokens_in", "tokens_out", SECONDS)
"""What a question spent, in the order it is told."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Say how the bootstrap draws: how often, and from which seed."""

    resamples: Annotated[int, Option("Bootstrap samples.", min=1)] = 1000
    seed: Annotated[int, Option("Seed of the bootstrap.")] = 0

    def bounds(self, statistic: Statistic, rows: int) -> Interval | None:
        """Bound a figure over draws of the rows."""
        return bootstrap(statistic, rows, resamples=self.resamples, seed=self.seed)

    def mean(self, values: Values, *, counts: bool = False) -> Interval:
        """Bound a mean of outcomes in [0, 1], or of counts."""
        bound = mean_interval if counts else outcome_interval
        return bound(values, resamples=self.resamples, seed=self.seed)


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


def is_apart(name: str, values: Sequence[float]) -> bool:
    """Say whether each question has a value of its own.

    Seconds that several share are the mean of a batch they went through in: how they spread is not
    known, and an interval over copies of one number would be too narrow.
    """
    return name != SECONDS or len(set(values)) == len(values)


def mean_figure(questions: Sequence[Question], name: str, draws: Draws, **of: str) -> Figure | None:
    """Average one value; None where no question has it."""
    values = column(questions, name)
    if not values:
        return None
    counts = name in (*COUNTED, COST)
    bounds = draws.mean(values, counts=counts) if is_apart(name, values) else None
    return Figure(name, float(np.mean(values)), bounds, len(values), of=of)


def area_figure(questions: Sequence[Question], name: str, draws: Draws, **of: str) -> Figure | None:
    """Compute the area under the ROC curve of one kind of pairs; None where no question has any."""
    area = area_of(questions, name)
    if area is None:
        return None
    size = len(questions)
    return Figure(name, area(np.arange(size)), draws.bounds(area, size), size, of=of)


def area_of(questions: Sequence[Question], name: str) -> Statistic | None:
    """Give the area over any draw of these questions."""
    pairs = [q.get("pairs", {}).get(name) or [] for q in questions]
    if not any(pairs):
        return None
    scores = [[float(score) for score, _ in each] for each in pairs]
    return Area(scores, [[int(label) for _, label in each] for each in pairs])


def difference(
    first: Sequence[float],
    second: Sequence[float],
    draws: Draws,
    *,
    name: str = "",
    test: bool = True,
) -> Change:
    """Compare two ways over the same questions: the second less the first.

    `p` is McNemar's, where every value is 0 or 1 and a `test` is wanted. There are no bounds where
    a value of this `name` is not each question's own.
    """
    bounds = None
    if is_apart(name, first) and is_apart(name, second):
        bounds = paired_interval(second, first, resamples=draws.resamples, seed=draws.seed)
    p = mcnemar(second, first) if test and {*first, *second} <= {0.0, 1.0} else None
    return Change(float(np.mean(second) - np.mean(first)), bounds, p)


def statistic_change(one: Statistic, other: Statistic, rows: int, draws: Draws) -> Change:
    """Compare figures that are no means; both draw the same questions."""

    def less(places: Places) -> float | None:
        a, b = one(places), other(places)
        return None if a is None or b is None else b - a

    return Change(less(np.arange(rows)), draws.bounds(less, rows))
