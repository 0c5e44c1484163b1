"""Set a result's figures in a table: methods by their costs, anything else by what it is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import (
    ALL,
    CONFUSION,
    NOTHING,
    Change,
    Figure,
    crossed,
    interval,
    number,
    signed,
)
from fitrag_integrations.evaluation.figures.methods import System, systems
from fitrag_integrations.evaluation.result import Result

COLUMNS = {
    "f1": "F1",
    "retrieval": "retrieved for",
    "retriever_calls": "retriever calls",
    "llm_calls": "LLM calls",
    "tokens_in": "tokens read",
    "tokens_out": "tokens written",
    "seconds": "seconds",
    "cost": "cost of 1,000",
    "noted": "noted",
}
"""Columns of the table of methods after those of accuracy; that of costs where there are any."""
NOTE = "Calls, tokens and seconds are averages per question; retrieved for and noted are shares."


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a table: text, and smaller text below it."""

    text: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Table; the first cell of a row is its name, the others are numbers."""

    caption: str
    head: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """Drawing with title, numbers and caption; `image` is its address, blank without one."""

    title: str
    image: str
    numbers: Table
    about: str = ""


def tables(result: Result, prices: Prices | None) -> list[Table]:
    """Build a result's tables."""
    if result.kind == "methods" and (lines := systems(result)):
        return [_methods([line.priced(prices) for line in lines])]
    figures = [Figure.of_row(row) for row in result.figures]
    confusion = [figure for figure in figures if figure.name == CONFUSION]
    rest = [figure for figure in figures if figure.name != CONFUSION]
    if result.kind == "compare":
        rows = [
            [
                Cell(", ".join(filter(None, (figure.name, figure.who)))),
                *(Cell(number(end)) for end in figure.ends or (None, None)),
                _change(figure.change),
                Cell(number(figure.questions)),
            ]
            for figure in rest
        ]
        head = ["figure", "first", "second", "second less first", "questions"]
        made = [Table("Two runs over the same questions", head, rows)]
    else:
        made = [
            _pivot(
                "Figures" if each == ALL else f"Figures of {each}",
                [figure for figure in rest if figure.set == each],
            )
            for each in dict.fromkeys(figure.set for figure in rest)
        ]
    if confusion:
        truths, table = crossed(confusion, lambda f: f.of["action"], lambda f: f.of["truth"])
        rows = [
            [Cell(action), *(Cell(number(None if each is None else each.value)) for each in own)]
            for action, own in table.items()
        ]
        made.append(Table("Questions by action", ["action", *truths], rows))
    return made


def _methods(lines: Sequence[System]) -> Table:
    """Build the table of methods, accuracy with its interval."""
    known = {name for line in lines for name in line.figures}
    names = [name for name in COLUMNS if name != "cost" or name in known]
    rows = [
        [
            Cell(line.name),
            Cell(number(line.accuracy.value), interval(line.accuracy.bounds)),
            _change(line.accuracy.change),
            *(Cell(str(line.figures.get(name, NOTHING))) for name in names),
            Cell(number(line.errors)),
        ]
        for line in lines
    ]
    head = ["method", "accuracy", "to the first", *(COLUMNS[name] for name in names), "errors"]
    return Table("Methods over the same questions", head, rows, NOTE)


def _change(change: Change | None) -> Cell:
    return Cell(number(None)) if change is None else Cell(signed(change.value), change.details())


def _pivot(caption: str, figures: Sequence[Figure]) -> Table:
    """Build a table of figures in rows and systems or orders in columns."""
    columns, table = crossed(figures, lambda figure: figure.name, lambda figure: figure.who)
    if columns == [""] and not any(figure.change for figure in figures):
        rows = [[Cell(f.name), Cell(number(f.value)), Cell(interval(f.bounds))] for f in figures]
        return Table(caption, ["figure", "value", "95 % interval"], rows)
    made = [[Cell(name), *map(_figure, own)] for name, own in table.items()]
    return Table(caption, ["figure", *(column or "value" for column in columns)], made)


def _figure(figure: Figure | None) -> Cell:
    """Build the cell of a value, with its interval and difference below."""
    if figure is None:
        return Cell(number(None))
    below = interval(figure.bounds)
    if figure.change is not None:
        change = f"{signed(figure.change.value)} ({figure.change.details()})"
        below = f"{below}{'; ' * bool(below)}{change}"
    return Cell(number(figure.value), below)
