"""Show the figures of an evaluation on the terminal, and draw them into a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.result import Plot

DRAWINGS = (".png", ".svg", ".pdf")
WIDE = 140  # columns where nobody looks at a terminal


def check_plot(plot: Path | None) -> None:
    """Raise `InputError` for a file that is no drawing."""
    if plot is not None and plot.suffix not in DRAWINGS:
        raise InputError.of("--plot", given=str(plot), allowed=f"a file in {', '.join(DRAWINGS)}")


def draw(plots: Sequence[Plot], path: Path) -> None:
    """Draw all plots beside each other into one file."""
    from fitrag_integrations.evaluation.plots import draw_plots

    draw_plots(plots).savefig(path)


def show(title: str, columns: Mapping[str, bool], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; `columns` say of each head whether its cells are numbers."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), box=None, padding=(0, 2, 0, 0), title_justify="left")
    for head, is_number in columns.items():
        table.add_column(escape(head), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def show_notes(notes: Iterable[str]) -> None:
    """Print notes under a table."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDE)
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def number(value: Any) -> str:
    """Write a share to three digits, a count or an amount to what it needs."""
    if value is None:
        return "-"
    if isinstance(value, bool | int):
        return str(int(value))
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def bounds(row: Mapping[str, Any], low: str = "low", high: str = "high") -> str:
    """Write an interval."""
    if row.get(low) is None or row.get(high) is None:
        return "-"
    return f"{number(row[low])} to {number(row[high])}"


def change(row: Mapping[str, Any]) -> str:
    """Write a difference with its interval."""
    if row.get("difference") is None:
        return "-"
    told = f"{row['difference']:+.3f}"
    if row.get("difference_low") is None:
        return told
    return f"{told} ({row['difference_low']:+.3f} to {row['difference_high']:+.3f})"


def probability(row: Mapping[str, Any]) -> str:
    """Write McNemar's p."""
    return "-" if row.get("p") is None else f"{row['p']:.2g}"
