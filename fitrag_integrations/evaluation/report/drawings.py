"""The drawings of a result, by Matplotlib: its own plots, and those of the table of methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fitrag_integrations.core.extras import installed
from fitrag_integrations.evaluation import plots
from fitrag_integrations.evaluation.figure import Figure, interval, number, real, signed
from fitrag_integrations.evaluation.figures.methods import systems
from fitrag_integrations.evaluation.report.tables import Cell, Shown, Table
from fitrag_integrations.evaluation.result import Plot, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AGAINST_TOKENS = "accuracy against tokens"
KNOWN = {
    "sweep": (
        "Accuracy against the share of retrieval",
        "Each point is a threshold of the gate (IK, Figure 1). Dotted: never retrieving, always, "
        "and an oracle that is right wherever either is.",
    ),
    "scores": (
        "How the gate's scores are spread",
        "The further apart the two lie, the better the gate tells them apart (IK, Figure 2).",
    ),
    "R@k": (
        "An answer among the first k passages",
        "The share of questions, by the order of the passages (FIT-RAG, Figures 7 to 9).",
    ),
    "right answers": (
        "Right answers by passages read",
        "By the order of the passages (FIT-RAG, Figure 10); the table has the intervals.",
    ),
    "answers": ("Answers by every measure", ""),
    "accuracy against cost": (
        "Accuracy against cost",
        "Up is better, left is cheaper, at the prices of the run.",
    ),
    "answers kept": (
        "Answers kept against tokens kept",
        "Up is better, left is cheaper. Questions without an answer to keep are left out.",
    ),
    "answers kept by tokens": (
        "Answers kept against tokens",
        "Every question gets the same budget, in both ways; a point is a budget, at the mean of "
        "the tokens that were really used. Up is better, left is cheaper. Questions whose answer "
        "does not stand in the retrieved passages are left out.",
    ),
    "actions": (
        "Actions, by whether an answer was there",
        "Correct where one is and Incorrect where none is are right (CRAG, section 4.3).",
    ),
    "best grades": (
        "How the best grades are spread",
        "The further apart the two lie, the safer the thresholds between them.",
    ),
    "comparison": ("The two runs, figure by figure", ""),
}
"""Titles and captions of the drawings whose names are known."""
MOST = 60  # rows of the numbers under a drawing


def drawings(result: Result) -> list[Shown]:
    """Draw a result; without Matplotlib there are the numbers alone."""
    made = []
    for plot in result.plots:
        numbers = {
            name: [
                (p[0], p[1])
                for p in points
                if len(p) == 2 and real(p[1]) is not None
                if plot.kind == "bar" or real(p[0]) is not None
            ]
            for name, points in plot.series.items()
        }
        series = {name: points for name, points in numbers.items() if points}
        if series and not (plot.name == AGAINST_TOKENS and systems(result)):  # drawn below
            levels = {name: y for name, y in plot.levels.items() if real(y) is not None}
            marks = {
                name: point
                for name, point in plot.marks.items()
                if len(point) == 2 and None not in map(real, point)
            }
            made.append(_of_plot(replace(plot, series=series, levels=levels, marks=marks)))
    return [*made, *_of_systems(result)]


def _of_plot(plot: Plot) -> Shown:
    xs = list(dict.fromkeys(x for points in plot.series.values() for x, _ in points))
    found = {(name, x): y for name, points in plot.series.items() for x, y in points}
    every = max(1, -(-len(xs) // MOST))
    rows = [
        [Cell(number(x)), *(Cell(number(found.get((name, x)))) for name in plot.series)]
        for x in xs[::every]
    ]
    note = "" if every == 1 else f"Every {every}. of {len(xs):,} points."
    title, about = KNOWN.get(plot.name, (plot.name, ""))
    numbers = Table(f"Numbers of: {title}", [plot.x, *plot.series], rows, note)
    image = ""
    if installed("matplotlib"):
        axes = plots.new_axes()
        plots.draw_plot(axes, plot)
        image = plots.svg(axes)
    return Shown(title, image, numbers, about)


def _shown(
    title: str, about: str, head: Sequence[str], rows: list[list[Cell]], axes: Axes | None
) -> Shown:
    image = "" if axes is None else plots.svg(axes)
    return Shown(title, image, Table(f"Numbers of: {title}", head, rows), about)


def _cell(figure: Figure | None) -> Cell:
    if figure is None:
        return Cell(number(None))
    below = interval(figure.bounds)
    if figure.change is not None:
        below = "; ".join(filter(None, (below, f"{signed(figure.change.value)}")))
    return Cell(number(figure.value), below)


def _of_systems(result: Result) -> Iterator[Shown]:
    """Draw the systems of a result by what they give and take, as far as that is known."""
    lines, draws = systems(result), installed("matplotlib")
    read = {line.name: line.value("tokens_in") for line in lines}
    known = [line for line in lines if read[line.name] is not None]
    if known:  # what an answer is worth against what it takes to read (FIT-RAG, Table 1)
        axes = plots.new_axes() if draws else None
        if axes is not None:
            for at, line in enumerate(known):
                how: dict[str, Any] = {"name": line.name, "color": f"C{at}"}
                plots.draw_value(axes, line.accuracy, at=read[line.name], **how)
            plots.labelled(axes, "tokens read per question", "accuracy", "", fontsize="small")
        rows = [
            [Cell(line.name), Cell(number(read[line.name])), _cell(line.accuracy)] for line in known
        ]
        about = "Up is better, left is cheaper; what FIT-RAG sets side by side in its Table 1."
        yield _shown("Accuracy against tokens", about, ["system", "tokens", "accuracy"], rows, axes)
    changes = {line.name: line.accuracy.change for line in lines if line.accuracy.change}
    if changes:
        first, axes = lines[0].name, plots.new_axes() if draws else None
        if axes is not None:
            for at, change in enumerate(changes.values()):
                plots.draw_value(axes, change, at=len(changes) - at, across=True)
            axes.axvline(0, color="gray", linewidth=0.8)
            axes.set_yticks(range(len(changes), 0, -1), [plots.plain(name) for name in changes])
            plots.labelled(axes, f"difference to {first}", "", "")
        rows = [[Cell(name), Cell(signed(c.value), c.details())] for name, c in changes.items()]
        about = "An interval that crosses the upright line leaves open which of the two is better."
        title = f"Accuracy less that of {first}"
        yield _shown(title, about, ["system", "difference"], rows, axes)
