"""Averages over questions, each with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np

from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figure import (
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
from fitrag_integrations.evaluation.result import grouped

Question: TypeAlias = Row
Statistic: TypeAlias = Callable[[Places], float | None]
SECONDS, COST = "seconds", "cost of a thousand questions"
COUNTED = ("retriever_calls", "llm_calls", "tokens_in", "tokens_out", SECONDS)
"""Costs of a question, in the order of the tables."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Settings of the bootstrap: number of samples and seed."""

    resamples: Annotated[int, Option("Bootstrap samples.", min=1)] = 1000
    seed: Annotated[int, Option("Seed of the bootstrap.")] = 0

    def bounds(self, statistic: Statistic, rows: int) -> Interval | None:
        """Compute the interval of a statistic over draws of `rows` rows."""
        return bootstrap(statistic, rows, resamples=self.resamples, seed=self.seed)

    def mean(self, values: Values, *, counts: bool = False) -> Interval:
        """Compute the interval of a mean of outcomes in [0, 1], or of `counts`."""
        bound = mean_interval if counts else outcome_interval
        return bound(values, resamples=self.resamples, seed=self.seed)


def by_set(questions: Sequence[Question]) -> dict[str, list[Question]]:
    """Group questions by data set, under `ALL` all of them."""
    sets = grouped((str(each.get("set") or ""), each) for each in questions)
    named = {name or "-": part for name, part in sets.items()} if len(sets) > 1 else {}
    return {ALL: list(questions), **named}


def column(questions: Iterable[Question], name: str) -> list[float]:
    """Return the value `name` of every question that has it."""
    return [float(q["values"][name]) for q in questions if q["values"].get(name) is not None]


def is_apart(name: str, values: Sequence[float]) -> bool:
    """Return whether each question has its own value.

    Equal seconds are the mean of a batch. Their spread is unknown, and an interval over copies of
    one number would be too narrow.
    """
    return name != SECONDS or len(set(values)) == len(values)


def mean_figure(questions: Sequence[Question], name: str, draws: Draws, **of: str) -> Figure | None:
    """Compute the mean of the value `name`; None if no question has it."""
    values = column(questions, name)
    if not values:
        return None
    bounds = draws.mean(values, counts=name in (*COUNTED, COST)) if is_apart(name, values) else None
    return Figure(name, float(np.mean(values)), bounds, len(values), of=of)


def set_figures(
    questions: Sequence[Question], draws: Draws, means: Sequence[str], areas: Sequence[str] = ()
) -> list[Figure]:
    """Compute figures of every set, as far as its questions have the values.

    Args:
        questions: The `per_question` rows of a `Result`.
        draws: Settings of the bootstrap.
        means: Values to average.
        areas: Pairs to compute the area under the ROC curve of.
    """
    found = []
    for label, part in by_set(questions).items():
        averages = (mean_figure(part, name, draws, set=label) for name in means)
        found += [figure for figure in averages if figure is not None]
        for name in areas:
            if (area := area_of(part, name)) is not None:
                value, bounds = area(np.arange(len(part))), draws.bounds(area, len(part))
                found.append(Figure(name, value, bounds, len(part), of={"set": label}))
    return found


def area_of(questions: Sequence[Question], name: str) -> Statistic | None:
    """Return the area under the ROC curve as a function of the drawn questions."""
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
    """Compute the mean of `second` minus `first` over the same questions.

    Args:
        first: One value a question.
        second: The other values, in the same order.
        draws: Settings of the bootstrap.
        name: Name of the value; seconds of a batch have no interval.
        test: Whether to compute McNemar's p if all values are 0 or 1.
    """
    bounds = None
    if is_apart(name, first) and is_apart(name, second):
        bounds = paired_interval(second, first, resamples=draws.resamples, seed=draws.seed)
    p = mcnemar(second, first) if test and {*first, *second} <= {0.0, 1.0} else None
    return Change(float(np.mean(second) - np.mean(first)), bounds, p)


def statistic_change(one: Statistic, other: Statistic, rows: int, draws: Draws) -> Change:
    """Compare two statistics that are not means, with the same draws for both."""

    def less(places: Places) -> float | None:
        a, b = one(places), other(places)
        return None if a is None or b is None else b - a

    return Change(less(np.arange(rows)), draws.bounds(less, rows))
