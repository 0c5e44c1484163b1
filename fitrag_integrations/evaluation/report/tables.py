"""Set a result's figures in a table: methods by their costs, anything else by what it is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.summaries import ALL
from fitrag_integrations.evaluation.report.charts.svg import Drawing, Scale
from fitrag_integrations.evaluation.report.systems import (
    Bounds,
    Line,
    difference_bounds,
    systems,
    value_bounds,
)
from fitrag_integrations.evaluation.report.words import chance, interval, number, signed
from fitrag_integrations.evaluation.result import Result

OF = ("system", "order", "method")
AVERAGES = {
    "f1": ("F1", 3),
    "retrieval": ("retrieved for", 3),
    "retriever_calls": ("retriever calls", 2),
    "llm_calls": ("LLM calls", 2),
    "tokens_in": ("tokens read", 0),
    "tokens_out": ("tokens written", 1),
    "seconds": ("seconds", 3),
}
"""Columns of the table of methods, with their decimals."""
NOTE = "Calls, tokens and seconds are averages per question; retrieved for and noted are shares."


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold what a cell shows: a text, a smaller one under it, and a drawing."""

    text: str
    below: str = ""
    drawing: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Hold a table; the first cell of a row names it, the others are numbers."""

    caption: str
    head: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold a drawing with what stands around it; `legend` are signs and names."""

    title: str
    drawing: str
    numbers: Table
    legend: list[tuple[str, str]] = field(default_factory=list)
    about: str = ""


def tables(result: Result, prices: Prices | None) -> list[Table]:
    """Give a result's tables."""
    if result.kind == "methods" and (lines := systems(result)):
        return [_methods(result, lines, prices)]
    confusion = [row for row in result.figures if row.get("figure") == "confusion"]
    rest = [row for row in result.figures if row.get("figure") != "confusion"]
    if result.kind == "compare":
        made = [_compared(rest)]
    else:
        sets = list(dict.fromkeys(row.get("set") for row in rest))
        made = [_pivot(_title(each), [r for r in rest if r.get("set") == each]) for each in sets]
    return made + ([_confusion(confusion)] if confusion else [])


def _title(name: Any) -> str:
    return "Figures" if name in (None, ALL) else f"Figures of {name}"


def _methods(result: Result, lines: Sequence[Line], prices: Prices | None) -> Table:
    """Set methods side by side, accuracy with its interval."""
    costs = ["cost of 1,000"] if any(line.cost(prices) for line in lines) else []
    known, rows = {str(row.get("method", "")): row for row in result.figures}, []
    for line in lines:
        row = known[line.name]
        cells = [Cell(line.name), _accuracy(line), _change(line.difference, line.gap)]
        cells += [Cell(number(row.get(name), tail)) for name, (_, tail) in AVERAGES.items()]
        if costs:
            cost = line.cost(prices)
            cells.append(Cell(number(None if cost is None else sum(cost.values()))))
        rows.append([*cells, Cell(number(line.noted)), Cell(number(line.errors))])
    names = [name for name, _ in AVERAGES.values()]
    head = ["method", "accuracy", "to the first", *names, *costs, "noted", "errors"]
    return Table("Methods over the same questions", head, rows, NOTE)


def _accuracy(line: Line) -> Cell:
    bounds = line.bounds
    return Cell(number(line.accuracy), interval(bounds), strip(line.accuracy, bounds))


def _change(difference: float | None, bounds: Bounds | None, p: Any = None) -> Cell:
    told = [interval(bounds, signed), f"p {chance(p)}" if p is not None else ""]
    return Cell(signed(difference), ", ".join(filter(None, told)))


def strip(value: float, bounds: Bounds | None) -> str:
    """Draw a share on a line from 0 to 1, its interval as a thick part."""
    drawing = Drawing.small(96, 12)
    across = Scale(0.0, 1.0, 6.0, 90.0)
    drawing.line(6, 6, 90, 6, "grid")
    if bounds is not None:
        drawing.line(across(bounds[0]), 6, across(bounds[1]), 6, "range")
    drawing.mark(0, across(value), 6, size=4.0)
    return drawing.markup()


def _pivot(caption: str, rows: Sequence[Row]) -> Table:
    """Set figures in rows and what they are of in columns."""
    columns = list(dict.fromkeys(map(_who, rows)))
    found = {(row.get("figure"), _who(row)): row for row in rows}
    if columns == [""] and not any("difference" in row for row in rows):
        return Table(caption, ["figure", "value", "95 % interval"], list(map(_plain, rows)))
    names = list(dict.fromkeys(row.get("figure") for row in rows))
    made = [
        [Cell(str(name)), *(_figure(found.get((name, column))) for column in columns)]
        for name in names
    ]
    return Table(caption, ["figure", *(column or "value" for column in columns)], made)


def _plain(row: Row) -> list[Cell]:
    """Write a figure that is of nothing in particular."""
    cells = [str(row.get("figure")), number(row.get("value")), interval(value_bounds(row))]
    return [Cell(text) for text in cells]


def _who(row: Row) -> str:
    return ", ".join(str(row[name]) for name in OF if row.get(name))


def _figure(row: Row | None) -> Cell:
    """Write a value with its interval and, under it, its difference with that one's."""
    if row is None:
        return Cell(number(None))
    below = interval(value_bounds(row))
    if row.get("difference") is not None:
        change = _change(row["difference"], difference_bounds(row), row.get("p"))
        below = f"{below}{'; ' * bool(below)}{change.text} ({change.below})"
    return Cell(number(row.get("value")), below)


def _compared(rows: Sequence[Row]) -> Table:
    """Set two results side by side, with their difference."""
    named = [", ".join(filter(None, (str(row.get("figure")), _who(row)))) for row in rows]
    made = [
        [
            Cell(name),
            *(Cell(number(row.get(end))) for end in ("first", "second")),
            _change(row.get("difference"), difference_bounds(row), row.get("p")),
            Cell(number(row.get("questions"))),
        ]
        for name, row in zip(named, rows, strict=True)
    ]
    head = ["figure", "first", "second", "second less first", "questions"]
    return Table("Two runs over the same questions", head, made)


def _confusion(rows: Sequence[Row]) -> Table:
    """Count questions by action, in rows, and by what was there, in columns."""
    truths = list(dict.fromkeys(str(row.get("truth")) for row in rows))
    actions = list(dict.fromkeys(str(row.get("action")) for row in rows))
    found = {(str(row.get("action")), str(row.get("truth"))): row.get("value") for row in rows}
    made = [
        [Cell(each), *(Cell(number(found.get((each, truth)))) for truth in truths)]
        for each in actions
    ]
    return Table("Questions by action", ["action", *truths], made)
