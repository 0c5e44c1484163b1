"""Draw with Matplotlib: a gate's sweep and scores, rankings, and the `Plot`s of a `Result`.

A function that takes axes draws on those it is given, or on a new figure, and returns them; save by
``axes.figure.savefig``. Needs Matplotlib; no window is opened and no global state is touched.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.figure import clipped
from fitrag_integrations.evaluation.result import Plot, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


def draw_plots(plots: Sequence[Plot]) -> Canvas:
    """Draw plots beside each other.

    Returns:
        The figure of Matplotlib.

    Raises:
        InputError: If there is no plot.
    """
    refuse_if(not plots, "plots", 0, "at least one plot")
    figure = _figure(6 * len(plots))
    for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
        draw_plot(axes, plot)
        axes.set_title(plain(plot.name))
    return figure


def draw_plot(axes: Axes, plot: Plot) -> None:
    """Draw a plot, without its name."""
    if plot.kind == "bar":
        _bars(plot.series, axes)
    elif plot.kind == "histogram":
        edges = sorted({float(x) for points in plot.series.values() for x, _ in points})
        width = min((b - a for a, b in zip(edges, edges[1:], strict=False)), default=1.0)
        for name, points in plot.series.items():
            left, heights = [x for x, _ in points], [y for _, y in points]
            axes.bar(left, heights, width, align="edge", alpha=0.5, label=plain(name))
    else:
        for name, points in plot.series.items():
            apart = plot.kind == "points" or len(points) < 2
            style: dict[str, Any] = {
                "marker": "o" if apart else "",
                "linestyle": "" if apart else "-",
            }
            axes.plot([p[0] for p in points], [p[1] for p in points], label=plain(name), **style)
    for name, height in plot.levels.items():
        axes.axhline(height, linestyle=":", color="grey", label=f"{plain(name)} ({height:.3f})")
    for name, (x, y) in plot.marks.items():
        axes.plot([x], [y], linestyle="", marker="D", color="black", label=plain(name))
    labelled(axes, plot.x, plot.y, "", fontsize="small")


def draw_value(
    axes: Axes, value: Any, *, at: float | None, across: bool = False, **style: Any
) -> None:
    """Draw a value of a figure or of a change as a point, with its interval through it.

    Args:
        axes: Axes to draw on.
        value: Object with `value` and `bounds`.
        at: Its place on the other axis.
        across: Draw the interval across instead of upright.
        **style: `name` for the legend, and settings of Matplotlib.
    """
    name, middle = style.pop("name", ""), value.value or 0.0
    style.setdefault("color", "C0")
    low, high = value.bounds or (middle, middle)
    axes.plot(*((middle, at) if across else (at, middle)), marker="o", linestyle="", **style)
    axes.lines[-1].set_label(plain(name) if name else "_")
    ends = ([low, high], [at, at]) if across else ([at, at], [low, high])
    axes.plot(*ends, color=style["color"], linewidth=1.2)


def svg(axes: Axes) -> str:
    """Return the figure of axes as a data link of SVG, the same bytes for the same numbers."""
    import matplotlib

    made = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "fitrag"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a face that lacks the letters of a name
        canvas = axes.get_figure(root=True)
        assert canvas is not None
        canvas.savefig(made, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(made.getvalue()).decode('ascii')}"


def plain(name: str) -> str:
    """Return a name on one line, as Matplotlib shows it: no formula, and not left out."""
    text = clipped(name, 60).replace("$", r"\$")
    return f"\N{WORD JOINER}{text}" if text.startswith("_") else text


def _bars(series: Series, axes: Axes) -> None:
    """Draw a group of bars for each x."""
    heads = list(dict.fromkeys(str(x) for points in series.values() for x, _ in points))
    width = 0.8 / max(1, len(series))
    for i, (name, points) in enumerate(series.items()):
        left = (i - (len(series) - 1) / 2) * width
        places = [heads.index(str(x)) + left for x, _ in points]
        axes.bar(places, [y for _, y in points], width, label=plain(name))
    axes.set_xticks(range(len(heads)), list(map(plain, heads)))


def new_axes() -> Axes:
    """Return axes on a new figure."""
    return _figure(6).subplots()


def _figure(width: float) -> Canvas:
    """Return a new figure; one of pyplot would never be released."""
    require_extra("matplotlib.figure", extra="plots", feature="plots")
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, 4), layout="constrained")


def labelled(axes: Axes, x: str, y: str, title: str, **font: Any) -> Axes:
    """Write the names of the axes, the title and a legend.

    Args:
        axes: Axes to write on, which are returned.
        x: Name of the axis across.
        y: Name of the axis up.
        title: Title.
        **font: Settings of the legend.
    """
    axes.set_xlabel(plain(x))
    axes.set_ylabel(plain(y))
    axes.set_title(plain(title))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, **font)
    return axes
