"""One figure of an evaluation: its value, how sure it is, what it is of, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import Shown
from fitrag_integrations.evaluation.figures.intervals import Interval
from fitrag_integrations.evaluation.words import chance, interval, number, signed

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
"""Decimals by what is counted; shares have three, and anything else what its size needs."""


@dataclass(frozen=True, slots=True)
class Change:
    """Hold a difference to the first system over the same questions.

    `bounds` hold 95 % of its bootstrap samples, `p` is McNemar's, for what is right or wrong.
    """

    value: float | None
    bounds: Interval | None = None
    p: float | None = None

    def told(self) -> str:
        """Write the interval, and p where there is one."""
        parts = [interval(self.bounds, signed), "" if self.p is None else f"p {chance(self.p)}"]
        return ", ".join(filter(None, parts))

    def __str__(self) -> str:
        if self.bounds is None:
            return signed(self.value)
        return f"{signed(self.value)} ({interval(self.bounds, signed)})"


@dataclass(frozen=True, slots=True)
class Figure(Shown):
    """Hold a value, None where the rows do not define it, with what is known about it.

    `bounds` are its interval at 95 %, `questions` is how many it is over. `of` says of
    what it is, by the names in `OF`. In a comparison of two runs `value` is the second's, `first`
    the first's.
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
        """Name the system, order or method it is of."""
        return ", ".join(self.of[name] for name in ("system", "order", "method") if name in self.of)

    @property
    def set(self) -> str:
        """Name the data set it is of."""
        return self.of.get("set", ALL)

    def __str__(self) -> str:
        return number(self.value, DECIMALS.get(self.name))

    def to_dict(self) -> dict[str, object]:
        """Give the row of a `Result`."""
        told: dict[str, object] = {"figure": self.name, **self.of}
        if self.ends is not None:
            first, second = self.ends
            told |= {"questions": self.questions, "first": first, "second": second}
        elif self.questions is None:
            told["value"] = self.value
        else:
            low, high = self.bounds or (None, None)
            told |= {"value": self.value, "low": low, "high": high, "questions": self.questions}
        if self.change is None:
            return told
        low, high = self.change.bounds or (None, None)
        ends = {"difference_low": low, "difference_high": high}
        return {**told, "difference": self.change.value, **ends, "p": self.change.p}

    @classmethod
    def of_row(cls, row: Row) -> Self:
        """Read the row of a `Result`, whoever wrote it; what is no number is not known.

        Where a row tells a difference alone, `low` and `high` are its bounds.
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


def real(value: object) -> float | None:
    """Take a number, None for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def pair(row: Row, low: str, high: str) -> Interval | None:
    """Take two ends, None unless both are numbers."""
    one, other = real(row.get(low)), real(row.get(high))
    return None if one is None or other is None else (one, other)
