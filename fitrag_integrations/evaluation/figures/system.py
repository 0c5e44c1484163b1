"""Hold what one system came to, a method or a file of answers, as figures by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import Shown
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import ALL, Change, Figure, pair, real
from fitrag_integrations.evaluation.figures.intervals import Interval
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.result import Result

ACCURACY = "accuracy"
JUDGED = (
    ACCURACY,
    "accuracy of the answers",
    "accuracy of the gate",
    "right where decided",
    "answer kept",
)
"""The values of a question that say, in this order of preference, whether it came out right."""
COUNTS = ("questions", "errors")
SPENT = {"tokens_in", "tokens_out"}


@dataclass(frozen=True, slots=True)
class System(Shown):
    """Hold a system's figures; tokens, calls and seconds are averages per question.

    `accuracy` is the share of questions whose answer holds a gold one as whole tokens, its `change`
    that to the first system; `retrieval` the share of questions for which anything was retrieved,
    and `noted` of those on which something was degraded or left out, as the notes of their contexts
    say. A question that ended in an error, of which there are `errors`, counts as answered wrongly.
    """

    name: str
    figures: Mapping[str, Figure]
    questions: int = 0
    errors: int = 0

    @property
    def accuracy(self) -> Figure:
        """Give how right it is."""
        return self.figures[ACCURACY]

    def value(self, name: str) -> float | None:
        """Give a figure's value, None where it is not known."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value

    def cost(self, prices: Prices | None) -> dict[str, float] | None:
        """Give what a thousand questions cost by what is paid for, None where it is not known."""
        read, written = self.value("tokens_in"), self.value("tokens_out")
        if prices is None or read is None or written is None:
            return None
        asked = self.value("retriever_calls") or 0.0
        return {
            "tokens read": prices.of_counts({"tokens_in": read}),
            "tokens written": prices.of_counts({"tokens_out": written}),
            "retrieval": prices.of_counts({"retriever_calls": asked}),
        }

    def priced(self, prices: Prices | None) -> Self:
        """Add the `cost` of a thousand questions, where it can be known."""
        parts = self.cost(prices)
        if parts is None:
            return self
        cost = Figure("cost", sum(parts.values()), of=self.accuracy.of)
        return replace(self, figures={**self.figures, cost.name: cost})

    def to_dict(self) -> dict[str, object]:
        """Give the line of `evaluate methods`; `low` and `high` bound the difference."""
        change = self.accuracy.change or Change(None)
        low, high = change.bounds or (None, None)
        counts = {"method": self.name, "questions": self.questions, "errors": self.errors}
        values = {name: figure.value for name, figure in self.figures.items()}
        return {**counts, **values, "difference": change.value, "low": low, "high": high}

    @classmethod
    def of_line(cls, line: Row, bounds: Interval | None = None) -> Self:
        """Read back what `to_dict` gave; `bounds` are those of the accuracy."""
        name, difference = str(line.get("method", "")), real(line.get("difference"))
        change = None if difference is None else Change(difference, pair(line, "low", "high"))
        ends = ("difference", "low", "high", *COUNTS)
        values = {each: real(value) for each, value in line.items() if each not in ends}
        figures = {
            each: Figure(each, value, of={"method": name})
            for each, value in values.items()
            if value is not None
        }
        figures[ACCURACY] = replace(figures[ACCURACY], bounds=bounds, change=change)
        return cls(name, figures, *(int(real(line.get(each)) or 0) for each in COUNTS))


def systems(result: Result) -> list[System]:
    """Give each system, in the result's order; none for results that are of none."""
    if result.kind == "methods":
        lines = [row for row in result.figures if real(row.get(ACCURACY)) is not None]
        return [System.of_line(row, _bounds_of(result, str(row.get("method")))) for row in lines]
    return _of_answers(result) if result.kind == "answers" else []


def _of_answers(result: Result) -> list[System]:
    found: dict[str, dict[str, Figure]] = {}
    for figure in map(Figure.of_row, result.figures):
        if figure.set == ALL and figure.value is not None:
            found.setdefault(figure.of.get("system", ""), {})[figure.name] = figure
    return [
        System(
            name or "answers",
            figures,
            figures[ACCURACY].questions or 0,
            sum(bool(row.get("error")) for row in _asked(result, name)),
        )
        for name, figures in found.items()
        if ACCURACY in figures
    ]


def right_of(row: Row) -> float | None:
    """Give how right a question came out, in [0, 1], None where nobody judged it."""
    values = row.get("values")
    found = [real(values.get(name)) for name in JUDGED] if isinstance(values, Mapping) else []
    return next((value for value in found if value is not None), None)


def system_of(row: Row) -> str:
    """Name the system of a row of a question."""
    return str(row.get("system") or row.get("method") or "")


def cost_bounds(result: Result, name: str, prices: Prices) -> Interval | None:
    """Bound what a thousand questions cost a system, where each question's tokens are kept."""
    values = [row.get("values") for row in _asked(result, name)]
    counted = [each for each in values if isinstance(each, Mapping) and set(each) >= SPENT]
    if len(counted) < len(values):
        return None
    return _bounds(result, [prices.of_counts(each) for each in counted], counts=True)


def _bounds_of(result: Result, name: str) -> Interval | None:
    """Bound a method's accuracy over its questions, where they are kept."""
    found = [right_of(row) for row in _asked(result, name)]
    return _bounds(result, [right for right in found if right is not None])


def _bounds(result: Result, values: Sequence[float], *, counts: bool = False) -> Interval | None:
    if not values:
        return None
    resamples, seed = (result.settings.get(each) for each in ("resamples", "seed"))
    draws = Draws(
        resamples if isinstance(resamples, int) and resamples > 0 else 1000,
        seed if isinstance(seed, int) and seed >= 0 else 0,
    )
    return draws.mean(values, counts=counts)


def _asked(result: Result, name: str) -> Sequence[Row]:
    return [row for row in result.per_question if system_of(row) == name]
