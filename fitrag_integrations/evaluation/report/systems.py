"""Read off a result what each system's answers are worth and what they cost, as one kind of line.

Results of `methods` and of `answers` tell the same under different names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.intervals import mean_interval
from fitrag_integrations.evaluation.figures.summaries import ALL
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

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """Hold a system's accuracy with its bounds, its difference to the first system, and costs.

    Tokens and calls are averages per question. What is not known is None.
    """

    name: str
    accuracy: float
    bounds: Bounds | None = None
    difference: float | None = None
    gap: Bounds | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    retriever_calls: float | None = None
    errors: int = 0
    noted: float = 0.0

    def cost(self, prices: Prices | None) -> dict[str, float] | None:
        """Give what a thousand questions cost by what is paid for, None where it is not known."""
        if prices is None or self.tokens_in is None or self.tokens_out is None:
            return None
        nothing = {"tokens_in": 0.0, "tokens_out": 0.0}
        read = prices.per_thousand(**nothing | {"tokens_in": self.tokens_in})
        written = prices.per_thousand(**nothing | {"tokens_out": self.tokens_out})
        asked = prices.per_thousand(**nothing, retriever_calls=self.retriever_calls or 0.0)
        return {"tokens read": read, "tokens written": written, "retrieval": asked}


def systems(result: Result) -> list[Line]:
    """Give a line for each system, in the result's order; none for results of another kind."""
    if result.kind == "methods":
        return [_of_method(result, row) for row in result.figures if _number(row.get(ACCURACY))]
    return _of_answers(result) if result.kind == "answers" else []


def _of_method(result: Result, row: Row) -> Line:
    name = str(row.get("method", ""))
    return Line(
        name,
        float(row[ACCURACY]),
        _bounds_of(result, name),
        _float(row.get("difference")),
        difference_bounds(row),
        tokens_in=_float(row.get("tokens_in")),
        tokens_out=_float(row.get("tokens_out")),
        retriever_calls=_float(row.get("retriever_calls")),
        errors=int(row.get("errors") or 0),
        noted=_float(row.get("noted")) or 0.0,
    )


def _of_answers(result: Result) -> list[Line]:
    found: dict[str, dict[str, Row]] = {}
    for row in result.figures:
        if row.get("set", ALL) == ALL and _number(row.get("value")):
            found.setdefault(str(row.get("system", "")), {})[str(row.get("figure"))] = row
    return [
        Line(
            name or "answers",
            float(rows[ACCURACY]["value"]),
            _pair(rows[ACCURACY], "low", "high"),
            _float(rows[ACCURACY].get("difference")),
            difference_bounds(rows[ACCURACY]),
            tokens_in=_value(rows, "tokens_in"),
            tokens_out=_value(rows, "tokens_out"),
            retriever_calls=_value(rows, "retriever_calls"),
            errors=sum(bool(q.get("error")) for q in _asked(result, name)),
        )
        for name, rows in found.items()
        if ACCURACY in rows
    ]


def _value(rows: Mapping[str, Row], name: str) -> float | None:
    return float(rows[name]["value"]) if name in rows else None


def difference_bounds(row: Row) -> Bounds | None:
    """Give the bounds of a figure's difference; `low` and `high` hold them where nothing else does.

    The lines of methods and of rankings have no interval of the figure itself.
    """
    if "difference_low" in row:
        return _pair(row, "difference_low", "difference_high")
    return _pair(row, "low", "high") if row.get("difference") is not None else None


def value_bounds(row: Row) -> Bounds | None:
    """Give the bounds of a figure itself, None where its row has those of a difference only."""
    if "difference_low" in row or row.get("difference") is None:
        return _pair(row, "low", "high")
    return None


def right_of(row: Row) -> float | None:
    """Give how right a question came out, in [0, 1], None where nobody judged it."""
    values = row.get("values")
    found = [_float(values.get(name)) for name in JUDGED] if isinstance(values, Mapping) else []
    return next((value for value in found if value is not None), None)


def system_of(row: Row) -> str:
    """Name the system of a row of a question."""
    return str(row.get("system") or row.get("method") or "")


def _bounds_of(result: Result, name: str) -> Bounds | None:
    """Bound a method's accuracy by the bootstrap over its questions, where they are kept."""
    found = [right_of(row) for row in _asked(result, name)]
    values = [right for right in found if right is not None]
    if not values:
        return None
    resamples, seed = (result.settings.get(each) for each in ("resamples", "seed"))
    return mean_interval(
        values,
        resamples=resamples if isinstance(resamples, int) and resamples > 0 else 1000,
        seed=seed if isinstance(seed, int) and seed >= 0 else 0,
    )


def _asked(result: Result, name: str) -> list[dict[str, Any]]:
    return [row for row in result.per_question if system_of(row) == name]


def _pair(row: Row, low: str, high: str) -> Bounds | None:
    one, other = _float(row.get(low)), _float(row.get(high))
    return None if one is None or other is None else (one, other)


def _float(value: Any) -> float | None:
    return float(value) if _number(value) else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
