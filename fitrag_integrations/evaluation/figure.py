"""One figure of an evaluation: its value, its interval, and how both are written.

Intervals are percentiles over resampled questions (Efron, 1979). Two systems are compared question
by question, since most of their noise is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.progress import tracked
from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import Shown
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
    """Compute the bootstrap interval of a figure.

    Args:
        statistic: Function of the indices of the drawn rows; None if the draw does not define it.
        rows: Number of rows.
        confidence: Level of the interval, in (0, 1).
        resamples: Number of draws with replacement.
        seed: Seed of the draws.
        show_progress: Whether to show a progress bar; None for slow runs at a terminal only.

    Returns:
        Both ends, or None if fewer than half of the draws define the figure.
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
    """Compute the 95 % interval of `hits` of `count` (Wilson, 1927).

    Unlike the bootstrap's it has a width if all rows hit, or none.

    Args:
        hits: Number of rows that hit, from 0 to `count`.
        count: Number of rows.
    """
    check_whole("count", count, low=1)
    z = 1.959964
    share = check_number("hits", hits, low=0, high=count) / count
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    away = z * float(np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2))
    return max(0.0, (middle - away) / scale), min(1.0, (middle + away) / scale)


def outcome_interval(values: Values, *, resamples: int = 1000, seed: int = 0) -> Interval:
    """Compute the 95 % interval of a mean of outcomes in [0, 1], not of counts or differences.

    Args:
        values: Outcomes; Wilson's interval if all are 0 or 1, else the bootstrap's.
        resamples: Number of draws.
        seed: Seed of the draws.
    """
    column = np.asarray(values, float)
    if np.isin(column, (0.0, 1.0)).all():
        return share_interval(float(column.sum()), len(column))
    return mean_interval(column, resamples=resamples, seed=seed)


def mean_interval(
    values: Values, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Compute the bootstrap interval of a mean.

    Args:
        values: The values.
        confidence: Level of the interval, in (0, 1).
        resamples: Number of draws with replacement.
        seed: Seed of the draws.
    """
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
    """Compute the bootstrap interval of the mean of `first` minus `second`, paired by question.

    Args:
        first: One value a question.
        second: The other values, in the same order.
        confidence: Level of the interval, in (0, 1).
        resamples: Number of draws with replacement.
        seed: Seed of the draws.
    """
    one, other = _pair(first, second)
    return mean_interval(one - other, confidence=confidence, resamples=resamples, seed=seed)


def mcnemar(first: Values, second: Values) -> float:
    """Compute the p-value of the exact two-sided test of McNemar (1947).

    Args:
        first: 1 for each question that the first system answered correctly, else 0.
        second: The same for the second system.

    Returns:
        The p-value in [0, 1]; 1.0 if the systems agree on every question.

    Raises:
        InputError: If the lists are empty or differ in length.
        MissingExtraError: Without SciPy.
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


NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# What would reorder a line, hide in it or not encode at all: C0 and C1, bidirectional controls,
# halves of surrogate pairs. Tabs and ends of lines stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """Replace invisible control characters by their code, such as `[U+202E]`."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def number(value: object, decimals: int | None = None) -> str:
    """Format a value; None becomes a dash.

    Args:
        value: Number, or any other value.
        decimals: Decimals of a float; by default three under 10, one under 1,000, none above.
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(str(value))
    if isinstance(value, float) and decimals is None:
        size = abs(value)
        decimals = 3 if size < 9.9995 else 1 if size < 999.95 else 0
    return f"{value:,.{decimals or 0}f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    """Format a difference with its sign."""
    if value is None:
        return NOTHING
    return number(value) if value < 0 else f"+{number(value)}"


def interval(bounds: tuple[float, float] | None, write: Callable[[Any], str] = number) -> str:
    """Format an interval with `write`; None becomes the empty text."""
    return "" if bounds is None else f"{write(bounds[0])} to {write(bounds[1])}"


def chance(p: float | None) -> str:
    """Format a p-value."""
    if p is None:
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clipped(text: str, most: int) -> str:
    """Shorten a name to `most` characters, on one line."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def cut(text: str, most: int) -> tuple[str, int]:
    """Return at most `most` characters of a text, and the number left out."""
    return (text, 0) if len(text) <= most else (text[:most], len(text) - most)


OF = ("set", "system", "order", "method", "action", "truth")
ALL, CONFUSION = "all", "confusion"
DECIMALS = {
    "tokens_in": 0,
    "tokens_out": 1,
    "retriever_calls": 2,
    "llm_calls": 2,
    "seconds": 3,
    "milliseconds": 0,
    "noted": 2,
}
"""Decimals of counts; fractions have three, other values depend on their size."""


@dataclass(frozen=True, slots=True)
class Change:
    """Difference to the first system over the same questions.

    Args:
        value: The difference; None if it is not defined.
        bounds: Its 95 % bootstrap interval.
        p: McNemar's p-value, for values of 0 and 1.
    """

    value: float | None
    bounds: Interval | None = None
    p: float | None = None

    def details(self) -> str:
        """Format the interval, and p if it is known."""
        parts = [interval(self.bounds, signed), "" if self.p is None else f"p {chance(self.p)}"]
        return ", ".join(filter(None, parts))

    def __str__(self) -> str:
        if self.bounds is None:
            return signed(self.value)
        return f"{signed(self.value)} ({interval(self.bounds, signed)})"


@dataclass(frozen=True, slots=True)
class Figure(Shown):
    """One value of an evaluation.

    Args:
        name: Name of the measure.
        value: The value; None if the rows do not define it. In a comparison, the second run's.
        bounds: 95 % interval.
        questions: Number of questions.
        change: Difference to the first system.
        of: What the figure belongs to, by the names in `OF`.
        ends: Values of both runs of a comparison.
    """

    name: str
    value: float | None
    bounds: Interval | None = None
    questions: int | None = None
    change: Change | None = None
    of: Mapping[str, str] = field(default_factory=dict)
    ends: tuple[float | None, float | None] | None = None

    @property
    def who(self) -> str:
        """System, order or method that the figure is of."""
        return ", ".join(self.of[name] for name in ("system", "order", "method") if name in self.of)

    @property
    def set(self) -> str:
        """Data set that the figure is of."""
        return self.of.get("set", ALL)

    def __str__(self) -> str:
        return number(self.value, DECIMALS.get(self.name))

    def to_dict(self) -> dict[str, object]:
        """Return the row of a `Result`."""
        row: dict[str, object] = {"figure": self.name, **self.of}
        if self.ends is not None:
            first, second = self.ends
            row |= {"questions": self.questions, "first": first, "second": second}
        elif self.questions is None:
            row["value"] = self.value
        else:
            low, high = self.bounds or (None, None)
            row |= {"value": self.value, "low": low, "high": high, "questions": self.questions}
        if self.change is None:
            return row
        low, high = self.change.bounds or (None, None)
        ends = {"difference_low": low, "difference_high": high}
        return {**row, "difference": self.change.value, **ends, "p": self.change.p}

    @classmethod
    def of_row(cls, row: Row) -> Self:
        """Read the row of a `Result`; values that are not numbers are None.

        If a row has a difference only, `low` and `high` are its bounds.
        """
        difference = real(row.get("difference"))
        own = "difference_low" in row or difference is None
        gap = pair(row, "difference_low", "difference_high") if own else pair(row, "low", "high")
        questions = row.get("questions")
        return cls(
            str(row.get("figure")),
            real(row.get("second" if "first" in row else "value")),
            pair(row, "low", "high") if own else None,
            questions if isinstance(questions, int) else None,
            None if difference is None else Change(difference, gap, real(row.get("p"))),
            {name: str(row[name]) for name in OF if row.get(name)},
            (real(row.get("first")), real(row.get("second"))) if "first" in row else None,
        )


def crossed(
    figures: Sequence[Figure], row: Callable[[Figure], str], column: Callable[[Figure], str]
) -> tuple[list[str], dict[str, list[Figure | None]]]:
    """Arrange figures as a table.

    Args:
        figures: The figures.
        row: Returns the name of a figure's row.
        column: Returns the name of its column.

    Returns:
        The names of the columns, and for each row the figure of every column, None if there is
        none.
    """
    found = {(row(figure), column(figure)): figure for figure in figures}
    columns = list(dict.fromkeys(each for _, each in found))
    return columns, {name: [found.get((name, each)) for each in columns] for name, _ in found}


def real(value: object) -> float | None:
    """Return a number, or None for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def pair(row: Row, low: str, high: str) -> Interval | None:
    """Return both ends, or None unless both are numbers."""
    one, other = real(row.get(low)), real(row.get(high))
    return None if one is None or other is None else (one, other)
