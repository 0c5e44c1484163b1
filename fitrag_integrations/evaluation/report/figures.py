"""The drawings of a result: its own plots, and those of the table of methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import (
    Figure,
    clipped,
    counted,
    interval,
    number,
    real,
    signed,
)
from fitrag_integrations.evaluation.figures.methods import cost_bounds, systems
from fitrag_integrations.evaluation.report import charts
from fitrag_integrations.evaluation.report.charts import Bar, Label
from fitrag_integrations.evaluation.report.svg import Drawing, swatch
from fitrag_integrations.evaluation.report.tables import Cell, Shown, Table
from fitrag_integrations.evaluation.result import Plot, Result

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
    """Build a result's drawings.

    Args:
        result: The result.
        place: Its number in the page.
        prices: Prices, for the costs of systems.
    """
    made = []
    for at, plot in enumerate(result.plots, start=1):
        series = {name: _numbers(plot, each) for name, each in plot.series.items()}
        is_below = plot.name == AGAINST_TOKENS and systems(result)  # drawn with intervals
        if any(series.values()) and not is_below:
            made.append(_plotted(plot, series, f"fig-{place}-{at}"))
    made += _right_by_depth(result, f"fig-{place}-read")
    return [*made, *system_drawings(result, f"fig-{place}", prices)]


def _plotted(plot: Plot, given: Mapping[str, list[Any]], name: str) -> Shown:
    """Draw a plot as it was left."""
    series = {each: points for each, points in given.items() if points}
    description = f"{plot.y} over {plot.x}; {counted(len(series), 'series')}: {', '.join(series)}."
    label = Label(name, plot.name, description, plot.x, plot.y)
    marks = {
        each: (float(point[0]), float(point[1]))
        for each, point in plot.marks.items()
        if len(point) == 2 and None not in map(real, point)
    }
    xs = list(dict.fromkeys(x for points in series.values() for x, _ in points))
    if plot.kind == "bar":
        groups = list(map(str, xs))
        bars = {
            each: [Bar(f"{each}, {x}", float(y), x=groups.index(str(x))) for x, y in points]
            for each, points in series.items()
        }
        drawing = charts.columns(label, bars, list(dict.fromkeys(groups)))
    elif plot.kind == "histogram":
        bins = sorted(map(float, xs))
        step = charts.step_of(bins)
        bars = {
            each: [Bar(f"{each}, {number(x)} to {number(x + step)}", y, x=x) for x, y in points]
            for each, points in series.items()
        }
        drawing = charts.columns(label, bars, bins=bins)
    elif plot.kind == "points":
        bars = {
            each: [Bar(each, float(y), x=x) for x, y in points] for each, points in series.items()
        }
        drawing = charts.points(label, [bar for own in bars.values() for bar in own])
    else:
        levels = {each: float(y) for each, y in plot.levels.items() if real(y) is not None}
        drawing = charts.lines(label, series, levels, marks)
    sign = {"line": "line", "points": "points"}.get(plot.kind, "area")
    legend = [(swatch(at, sign), each) for at, each in enumerate(series)]
    legend += [(swatch(at), each) for at, each in enumerate(marks, start=len(series))]
    found = {(each, x): y for each, points in series.items() for x, y in points}
    every = max(1, -(-len(xs) // SHOWN))
    rows = [
        [Cell(number(x)), *(Cell(number(found.get((each, x)))) for each in series)]
        for x in xs[::every]
    ]
    note = "" if every == 1 else f"Every {every}. of {len(xs):,} points."
    numbers = Table(f"Numbers of: {plot.name}", [plot.x, *series], rows, note)
    title, about = KNOWN.get(plot.name, (plot.name, ""))
    return Shown(title, drawing.markup(), numbers, legend, about)


def _numbers(plot: Plot, points: Sequence[Sequence[object]]) -> list[Any]:
    """Leave out points that are none, such as a figure that is not defined."""
    return [
        (point[0], point[1])
        for point in points
        if len(point) == 2 and real(point[1]) is not None
        if plot.kind == "bar" or real(point[0]) is not None
    ]


def _shown(
    drawing: Drawing,
    title: str,
    head: Sequence[str],
    rows: list[list[Cell]],
    legend: Sequence[str],
    about: str,
    sign: str = "area",
) -> Shown:
    """Set a drawing with its numbers, and a legend of the series in their order."""
    signs = [(swatch(at, sign), each) for at, each in enumerate(legend)]
    return Shown(title, drawing.markup(), Table(f"Numbers of: {title}", head, rows), signs, about)


def _right_by_depth(result: Result, name: str) -> Iterator[Shown]:
    """Draw accuracy by the number of passages read, for every order (FIT-RAG, Figure 10)."""
    figures = [Figure.of_row(row) for row in result.figures]
    figures = [f for f in figures if f.name.startswith(READ) and "order" in f.of]
    depths = list(dict.fromkeys(figure.name.removeprefix(READ) for figure in figures))
    base: dict[str, float] = {}
    bars: dict[str, dict[int, Bar]] = {}
    for figure in figures:
        if figure.value is None:
            continue
        if figure.who == figures[0].who:
            base[figure.name] = figure.value
        bounds = figure.bounds  # or those of the change, around the first order's value
        if bounds is None and figure.change is not None and figure.change.bounds is not None:
            low, high = figure.change.bounds
            middle = base.get(figure.name, figure.value)
            bounds = middle + low, middle + high
        at = depths.index(figure.name.removeprefix(READ))
        bar = Bar(f"{figure.who}, {figure.name}", float(figure.value), bounds, at)
        bars.setdefault(figure.who, {})[at] = bar
    if bars:
        title = "Right answers by passages read"
        description = f"Share of right answers by passages read, for {', '.join(bars)}."
        label = Label(name, title, description, "passages read", "share of right answers")
        rows = [
            [Cell(k), *(_cell(found.get(at)) for found in bars.values())]
            for at, k in enumerate(depths)
        ]
        series = {each: list(found.values()) for each, found in bars.items()}
        about = "Whiskers bound the difference to the first order (FIT-RAG, Figure 10)."
        drawing = charts.columns(label, series, depths)
        yield _shown(drawing, title, ["passages read", *bars], rows, [*bars], about)


def _cell(bar: Bar | None) -> Cell:
    return Cell(number(None)) if bar is None else Cell(number(bar.value), interval(bar.bounds))


def system_drawings(result: Result, name: str, prices: Prices | None) -> Iterator[Shown]:
    """Draw the systems of a result by what they give and take, as far as that is known.

    Args:
        result: The result.
        name: Beginning of the drawings' identifiers.
        prices: Prices; there are no costs without them.
    """
    lines = systems(result)
    bars = [
        Bar(line.name, float(line.accuracy.value or 0.0), line.accuracy.bounds, tokens)
        for line in lines
        if (tokens := line.value("tokens_in")) is not None
    ]
    if bars:  # what an answer is worth against what it takes to read (FIT-RAG, Table 1)
        title = "Accuracy against tokens"
        description = f"Accuracy over tokens read per question, of {counted(len(bars), 'system')}."
        label = Label(f"{name}-tokens", title, description, "tokens read per question", "accuracy")
        rows = [[Cell(bar.name), Cell(number(bar.x)), _cell(bar)] for bar in bars]
        about = "Up is better, left is cheaper; what FIT-RAG sets side by side in its Table 1."
        legend, head = [bar.name for bar in bars], ["system", "tokens", "accuracy"]
        yield _shown(charts.points(label, bars), title, head, rows, legend, about, "points")
    changes = {line.name: change for line in lines if (change := line.accuracy.change) is not None}
    if changes:
        first = lines[0].name
        bars = [Bar(each, float(one.value or 0.0), one.bounds) for each, one in changes.items()]
        title = f"Accuracy less that of {clipped(first, 30)}"
        description = (
            f"Difference of each system to {first}, with its 95 % interval over the same questions."
        )
        label = Label(f"{name}-differences", title, description, f"difference to {first}", "")
        rows = [[Cell(each), Cell(signed(c.value), c.details())] for each, c in changes.items()]
        about = "An interval that crosses the upright line leaves open which of the two is better."
        yield _shown(charts.forest(label, bars), title, ["system", "difference"], rows, [], about)
    costs = {line.name: cost for line in lines if (cost := line.cost(prices))}
    if prices is not None and costs:
        title = "Cost of a thousand questions"
        kinds = next(iter(costs.values()))
        parts = [part for part in kinds if any(cost[part] for cost in costs.values())]
        values = {each: [cost[part] for part in parts] for each, cost in costs.items()}
        ends = {each: cost_bounds(result, each, prices) for each in costs}
        description = f"What a thousand questions cost, made of {', '.join(parts) or 'nothing'}."
        label = Label(f"{name}-costs", title, description, "in the currency of the prices", "")
        rows = [
            [Cell(each), *map(Cell, map(number, row)), Cell(number(sum(row)), interval(ends[each]))]
            for each, row in values.items()
        ]
        about = (
            f"At {prices.tokens_in:g} for a million tokens read, {prices.tokens_out:g} for a "
            f"million written and {prices.retrieval:g} for a thousand retrievals."
        )
        drawing = charts.stacked(label, values, parts, ends)
        yield _shown(drawing, title, ["system", *parts, "all"], rows, parts, about)
