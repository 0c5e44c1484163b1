"""Draw a curve with Matplotlib: a gate's sweep, R@k by k, answers kept by tokens.

No window is opened and no global state is touched.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import shortened, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Plot(Record):
    """Numbers of one drawing.

    Args:
        name: Name of the drawing.
        x: Name of the horizontal axis.
        y: Name of the vertical axis.
        series: Points `[x, y]` by name, in the order in which a line joins them.
        levels: Named heights for horizontal lines to compare with.
        marks: Named points `(x, y)` such as the threshold in use.
    """

    name: str
    x: str
    y: str
    series: Mapping[str, Sequence[Sequence[float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def points(self) -> list[list[str]]:
        """Return the numbers as a table: a header, and one row per point."""
        rows = [
            [name, f"{x:.3f}" if x < 10 else f"{x:,.1f}", f"{y:.3f}"]
            for name, points in {**self.series, **{k: [v] for k, v in self.marks.items()}}.items()
            for x, y in points
        ]
        return [["", self.x, self.y], *rows] if rows else []


def draw(plot: Plot) -> Figure:
    """Draw a plot; returns the Matplotlib figure, which `savefig` writes."""
    require_extra("matplotlib.figure", extra="plots", feature="plots")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")  # one of pyplot is never released
    axes = figure.subplots()
    for name, points in plot.series.items():
        axes.plot(
            *zip(*points, strict=True), marker="" if len(points) > 20 else ".", label=_plain(name)
        )
    for name, height in plot.levels.items():
        axes.axhline(height, linestyle=":", color="grey", label=f"{_plain(name)} ({height:.3f})")
    for name, (x, y) in plot.marks.items():
        axes.plot([x], [y], linestyle="", marker="D", color="black", label=_plain(name))
    axes.set(xlabel=_plain(plot.x), ylabel=_plain(plot.y), title=_plain(plot.name))
    axes.legend(frameon=False, fontsize="small")
    return figure


def svg(plot: Plot) -> str:
    """Return a plot as a data link of SVG, the same bytes for the same numbers."""
    figure, made = draw(plot), io.BytesIO()
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "fitrag"}):
        figure.savefig(made, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(made.getvalue()).decode('ascii')}"


def _plain(name: Any) -> str:
    """Return a name on one line, as Matplotlib shows it: no formula, and not left out."""
    text = visible(shortened(name, most=60)).replace("$", r"\$")
    return f"\N{WORD JOINER}{text}" if text.startswith("_") else text
