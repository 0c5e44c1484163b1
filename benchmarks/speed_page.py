"""Tell what speed.py measured: as tables, as plots, and in docs/speed.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

Row = dict[str, Any]
DOCS = Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"(<!-- table: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
UNSHOWN = {"least", "most", "with"}  # columns that stand in the results alone


def markdown(found: Row) -> str:
    """Write all parts as tables."""
    parts = (f"## {name}, {part['at']}\n\n{table(part['rows'])}\n" for name, part in found.items())
    return "\n".join(parts)


def table(rows: list[Row]) -> str:
    """Write rows as a table of all their columns."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[cell(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: Any) -> str:
    """Write a value, a number in three digits or all before the point."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def filled(text: str, found: Row) -> str:
    """Put the tables of the parts between their marks in a page; a part not measured stays."""

    def told(mark: re.Match[str]) -> str:
        part = found.get(mark[2])
        if part is None:
            return mark[0]
        shown = [{k: v for k, v in row.items() if k not in UNSHOWN} for row in part["rows"]]
        return f"{mark[1]}\n\n{table(shown)}\n\n{mark[3]}"

    return TABLE.sub(told, text)


def write_page(found: Row) -> None:
    """Write tables and plots into the documentation."""
    page = DOCS / "speed.md"
    page.write_text(filled(page.read_text(), found))
    draw(found, DOCS / "images" / "scaling.svg")


def draw(found: Row, path: Path) -> None:
    """Draw time and memory over passages, all logarithmic."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "scaling"  # the same bytes for the same figures
    figure = Figure(figsize=(9, 4), layout="constrained")
    times, room = figure.subplots(1, 2)
    sizes = [row for row in found["passages"]["rows"] if row["what"].endswith("passages")]
    for axes, column in ((times, "ms"), (room, "peak MB")):
        up = [row[column] for row in sizes]
        axes.loglog([row["passages"] for row in sizes], up, marker="o", label="measured")
        axes.set(xlabel="passages", ylabel=column)
    room.set_ylim(1, 3000)
    linear = sizes[0]["ms"] / sizes[0]["passages"]
    ends = [sizes[0]["passages"], sizes[-1]["passages"]]
    times.plot(ends, [linear * end for end in ends], linestyle=":", color="grey", label="linear")
    times.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
