"""Print the table of `fitrag evaluate rerank`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fitrag_integrations.evaluation.figures.ranking import Figure
from fitrag_integrations.evaluation.ranking import RETRIEVER


def by_order(figures: Sequence[Figure]) -> dict[str, dict[str, Any]]:
    """Give the figures of each order by their names."""
    found: dict[str, dict[str, Any]] = {}
    for figure in figures:
        row = figure.to_dict()
        found.setdefault(row.pop("order"), {})[row.pop("figure")] = row
    return found


def show(
    figures: Sequence[Figure], gaps: Mapping[str, float | None], notes: Sequence[str], rows: int
) -> None:
    """Print the table, the gap closed, and the notes."""
    from rich.console import Console
    from rich.table import Table

    title = f"{rows} questions; with the difference to the retriever's order and its interval"
    table = Table(title=title, box=None, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column("figure", no_wrap=True)
    found = by_order(figures)
    for order in found:
        table.add_column(order, justify="right", no_wrap=True)
    for name in dict.fromkeys(figure.figure for figure in figures):
        cells = [found[order].get(name) for order in found]
        table.add_row(name, *map(_cell, cells))
        if any(cell and cell["p"] is not None for cell in cells):
            table.add_row("  McNemar's p", *map(_p, cells))
    blank = {RETRIEVER: "-"}
    closed = {by: "-" if gap is None else f"{gap:.2f}" for by, gap in gaps.items()}
    table.add_row("gap closed (MRR)", *((blank | closed).get(order, "-") for order in found))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for note in notes:
        console.print(f"note: {note}", highlight=False)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return "-"
    told = f"{row['value']:.3f}"
    if row["difference"] is None or row["low"] is None:
        return told
    return f"{told} {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"


def _p(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None or row["p"] is None else f"{row['p']:.2g}"
