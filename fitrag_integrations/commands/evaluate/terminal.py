"""Show the figures of an evaluation on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from fitrag_integrations.evaluation.figure import (
    ALL,
    MINUS,
    NOTHING,
    Figure,
    crossed,
    interval,
    number,
)

WIDE = 140  # columns where nobody looks at a terminal
PLAIN = str.maketrans({MINUS: "-", NOTHING: "-"})


def show(
    title: str, columns: Mapping[str, bool], rows: Iterable[Sequence[str]], wide: int = WIDE
) -> None:
    """Print a table; `columns` say of each head whether its cells are numbers."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), box=None, padding=(0, 2, 0, 0), title_justify="left")
    for head, is_number in columns.items():
        table.add_column(escape(head), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        cells = zip(row, columns.values(), strict=True)
        table.add_row(*(escape(c.translate(PLAIN) if is_number else c) for c, is_number in cells))
    Console(width=None if sys.stdout.isatty() else wide).print(table)


def show_notes(notes: Iterable[str]) -> None:
    """Print notes under a table."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDE)
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def show_figures(figures: Sequence[Figure], title: str) -> None:
    """Print one line for each figure, with the columns that any of them needs."""
    named = [
        each
        for each in ("set", "system")
        if any(f.of.get(each, "") not in ("", ALL) for f in figures)
    ]
    compared = any(figure.change for figure in figures)
    runs = any(figure.ends for figure in figures)
    columns = dict.fromkeys(("figure", *named), False)
    columns |= dict.fromkeys(("first", "second") if runs else ("value", "95 %"), True)
    if compared:
        columns |= {"second less first" if runs else "to the first": True, "McNemar's p": True}
    rows = []
    for figure in figures:
        cells = [figure.name, *(figure.of.get(each) or "-" for each in named)]
        if figure.ends:
            cells += map(number, figure.ends)
        else:
            cells += [number(figure.value), interval(figure.bounds) or NOTHING]
        if compared:
            p = None if figure.change is None else figure.change.p
            cells += [str(figure.change or NOTHING), NOTHING if p is None else f"{p:.2g}"]
        rows.append([*cells, number(figure.questions)])
    show(title, {**columns, "questions": True}, rows)


def pivot(figures: Sequence[Figure]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a table with figures down and what they are of across."""
    heads, table = crossed(figures, lambda figure: figure.name, lambda figure: figure.who)
    rows = []
    for name, own in table.items():
        cells, tests = [name], ["  McNemar's p"]
        for figure in own:
            change = None if figure is None else figure.change
            bounds = "" if figure is None or not figure.bounds else f" ({interval(figure.bounds)})"
            after = "" if change is None else f" {change}"
            cells.append(NOTHING if figure is None else f"{figure}{bounds}{after}")
            tests.append(NOTHING if change is None or change.p is None else f"{change.p:.2g}")
        rows += [cells, tests] if any(test != NOTHING for test in tests[1:]) else [cells]
    return heads, rows
