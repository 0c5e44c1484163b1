"""Choose the drawings of a result: those it brings along, and those of the table of methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import Figure, real
from fitrag_integrations.evaluation.figures.intervals import Interval
from fitrag_integrations.evaluation.figures.system import systems
from fitrag_integrations.evaluation.report.charts import spread, upright
from fitrag_integrations.evaluation.report.charts.svg import Drawing, swatch
from fitrag_integrations.evaluation.report.charts.upright import Bar, Label
from fitrag_integrations.evaluation.report.system_figures import system_drawings
from fitrag_integrations.evaluation.report.tables import Cell, Shown, Table
from fitrag_integrations.evaluation.result import Plot, Result
from fitrag_integrations.evaluation.words import counted, interval, number

AGAINST_TOKENS, READ = "accuracy against tokens", "accuracy@"
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
SHOWN = 60  # rows of the numbers under a drawing


def drawings(result: Result, place: int, prices: Prices | None) -> list[Shown]:
    """Give a result's drawings; `place` is its number in the page."""
    made = [
        _plotted(plot, f"fig-{place}-{at}")
        for at, plot in enumerate(result.plots, start=1)
        if plot.name != AGAINST_TOKENS or not systems(result)  # is drawn with intervals below
        if any(_numbers(plot, points) for points in plot.series.values())
    ]
    made += _right_by_depth(result, f"fig-{place}-read")
    return [*made, *system_drawings(result, f"fig-{place}", prices)]


def _plotted(plot: Plot, name: str) -> Shown:
    """Draw a plot as it was left."""
    series = {each: _numbers(plot, points) for each, points in plot.series.items()}
    series = {each: points for each, points in series.items() if points}
    levels = {each: float(v) for each, v in plot.levels.items() if real(v) is not None}
    told = f"{plot.y} over {plot.x}; {counted(len(series), 'series')}: {', '.join(series)}."
    label = Label(name, plot.name, told, plot.x, plot.y)
    marks = {each: (float(p[0]), float(p[1])) for each, p in plot.marks.items() if _is_point(p)}
    sign = {"line": "line", "points": "points"}.get(plot.kind, "area")
    legend = [(swatch(at, sign), each) for at, each in enumerate(series)]
    legend += [(swatch(at), each) for at, each in enumerate(marks, start=len(series))]
    title, about = KNOWN.get(plot.name, (plot.name, ""))
    drawing = _draw(plot.kind, label, series, levels, marks).markup()
    return Shown(title, drawing, _numbers_of(plot, series), legend, about)


def _draw(
    kind: str,
    label: Label,
    series: Mapping[str, list[Any]],
    levels: Mapping[str, float],
    marks: Mapping[str, tuple[float, float]],
) -> Drawing:
    if kind == "bar":
        groups = list(dict.fromkeys(str(x) for points in series.values() for x, _ in points))
        bars = {
            name: [Bar(f"{name}, {x}", float(y), x=groups.index(str(x))) for x, y in points]
            for name, points in series.items()
        }
        return upright.columns(label, groups, bars)
    if kind == "histogram":
        return upright.histogram(label, series)
    if kind == "points":
        return spread.points(label, [Bar(n, y, x=x) for n, ps in series.items() for x, y in ps])
    return upright.lines(label, series, levels, marks)


def _is_point(given: Sequence[object]) -> bool:
    return len(given) == 2 and all(real(end) is not None for end in given)


def _numbers(plot: Plot, points: Sequence[Sequence[object]]) -> list[Any]:
    """Leave out points that are none, such as a figure that is not defined."""
    texts = plot.kind == "bar"
    return [
        (point[0], point[1])
        for point in points
        if len(point) == 2 and real(point[1]) is not None
        if texts or real(point[0]) is not None
    ]


def _numbers_of(plot: Plot, series: Mapping[str, Sequence[tuple[Any, Any]]]) -> Table:
    """Tell the numbers of a plot, x down and the series across."""
    xs = list(dict.fromkeys(x for points in series.values() for x, _ in points))
    found = {(name, x): y for name, points in series.items() for x, y in points}
    step = max(1, -(-len(xs) // SHOWN))
    rows = [
        [Cell(number(x)), *(Cell(number(found.get((name, x)))) for name in series)]
        for x in xs[::step]
    ]
    note = "" if step == 1 else f"Every {step}. of {len(xs):,} points."
    return Table(f"Numbers of: {plot.name}", [plot.x, *series], rows, note)


def _right_by_depth(result: Result, name: str) -> Iterator[Shown]:
    """Draw accuracy by the number of passages read, for every order (FIT-RAG, Figure 10)."""
    figures = [Figure.of_row(row) for row in result.figures]
    figures = [f for f in figures if f.name.startswith(READ) and "order" in f.of]
    values = {(f.who, f.name): f.value for f in figures if f.value is not None}
    depths = list(dict.fromkeys(figure.name.removeprefix(READ) for figure in figures))
    series: dict[str, list[Bar]] = {}
    for figure in figures:
        if figure.value is not None:
            base = values.get((figures[0].who, figure.name), figure.value)
            place = depths.index(figure.name.removeprefix(READ))
            bar = Bar(f"{figure.who}, {figure.name}", figure.value, _about(base, figure), place)
            series.setdefault(figure.who, []).append(bar)
    if series:
        title = "Right answers by passages read"
        told = f"Share of right answers by passages read, for {', '.join(series)}."
        label = Label(name, title, told, "passages read", "share of right answers")
        bars = {each: {bar.x: bar for bar in found} for each, found in series.items()}
        table = [
            [Cell(k), *(_cell(found.get(at)) for found in bars.values())]
            for at, k in enumerate(depths)
        ]
        numbers = Table(f"Numbers of: {title}", ["passages read", *series], table)
        legend = [(swatch(at, "area"), each) for at, each in enumerate(series)]
        about = "Whiskers bound the difference to the first order (FIT-RAG, Figure 10)."
        drawing = upright.columns(label, depths, series).markup()
        yield Shown(title, drawing, numbers, legend, about)


def _about(base: float, figure: Figure) -> Interval | None:
    """Give a figure's bounds, or those of its change about the first's value."""
    if figure.bounds is not None or figure.change is None or figure.change.bounds is None:
        return figure.bounds
    low, high = figure.change.bounds
    return base + low, base + high


def _cell(bar: Bar | None) -> Cell:
    return Cell(number(None)) if bar is None else Cell(number(bar.value), interval(bar.bounds))
