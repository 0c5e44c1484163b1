"""The drawings of a result: its own plots, and those of the table of methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import (
    Change,
    Figure,
    Interval,
    clipped,
    counted,
    interval,
    number,
    real,
    signed,
)
from fitrag_integrations.evaluation.figures.methods import System, cost_bounds, systems
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
    """Build a result's drawings; `place` is its number in the page."""
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
    description = f"{plot.y} over {plot.x}; {counted(len(series), 'series')}: {', '.join(series)}."
    label = Label(name, plot.name, description, plot.x, plot.y)
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
        return charts.columns(label, groups, bars)
    if kind == "histogram":
        return charts.histogram(label, series)
    if kind == "points":
        return charts.points(label, [Bar(n, y, x=x) for n, ps in series.items() for x, y in ps])
    return charts.lines(label, series, levels, marks)


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
    """Build the table of a plot, x down and the series across."""
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
        description = f"Share of right answers by passages read, for {', '.join(series)}."
        label = Label(name, title, description, "passages read", "share of right answers")
        bars = {each: {bar.x: bar for bar in found} for each, found in series.items()}
        table = [
            [Cell(k), *(_cell(found.get(at)) for found in bars.values())]
            for at, k in enumerate(depths)
        ]
        numbers = Table(f"Numbers of: {title}", ["passages read", *series], table)
        legend = [(swatch(at, "area"), each) for at, each in enumerate(series)]
        about = "Whiskers bound the difference to the first order (FIT-RAG, Figure 10)."
        drawing = charts.columns(label, depths, series).markup()
        yield Shown(title, drawing, numbers, legend, about)


def _about(base: float, figure: Figure) -> Interval | None:
    """Return a figure's bounds, or those of its change around the first's value."""
    if figure.bounds is not None or figure.change is None or figure.change.bounds is None:
        return figure.bounds
    low, high = figure.change.bounds
    return base + low, base + high


def _cell(bar: Bar | None) -> Cell:
    return Cell(number(None)) if bar is None else Cell(number(bar.value), interval(bar.bounds))


def system_drawings(result: Result, name: str, prices: Prices | None) -> Iterator[Shown]:
    """Draw the systems of a result by what they give and take, as far as that is known."""
    lines = systems(result)
    counted_all = [line for line in lines if line.value("tokens_in") is not None]
    if counted_all:
        yield _against_tokens(counted_all, f"{name}-tokens")
    if compared := [line for line in lines if line.accuracy.change is not None]:
        yield _differences(lines[0].name, compared, f"{name}-differences")
    costs = {line.name: cost for line in lines if (cost := line.cost(prices))}
    if prices is not None and costs:
        ends = {each: cost_bounds(result, each, prices) for each in costs}
        yield _costs(costs, ends, f"{name}-costs", prices)


def _against_tokens(lines: Sequence[System], name: str) -> Shown:
    """Draw what an answer is worth against what it takes to read (FIT-RAG, Table 1)."""
    bars = [
        Bar(
            line.name,
            line.accuracy.value or 0.0,
            line.accuracy.bounds,
            line.value("tokens_in") or 0.0,
        )
        for line in lines
    ]
    title = "Accuracy against tokens"
    description = f"Accuracy over tokens read per question, of {counted(len(bars), 'system')}."
    label = Label(name, title, description, "tokens read per question", "accuracy")
    rows = [
        [Cell(bar.name), Cell(number(bar.x)), Cell(number(bar.value), interval(bar.bounds))]
        for bar in bars
    ]
    numbers = Table(f"Numbers of: {title}", ["system", "tokens", "accuracy"], rows)
    legend = [(swatch(at), bar.name) for at, bar in enumerate(bars)]
    about = "Up is better, left is cheaper; what FIT-RAG sets side by side in its Table 1."
    return Shown(title, charts.points(label, bars).markup(), numbers, legend, about)


def _differences(first: str, lines: Sequence[System], name: str) -> Shown:
    """Draw the gain or loss of each system against the first."""
    changes = {line.name: line.accuracy.change or Change(None) for line in lines}
    bars = [Bar(each, change.value or 0.0, change.bounds) for each, change in changes.items()]
    title = f"Accuracy less that of {clipped(first, 30)}"
    description = (
        f"Difference of each system to {first}, with its 95 % interval over the same questions."
    )
    label = Label(name, title, description, f"difference to {first}", "")
    rows = [
        [Cell(each), Cell(signed(change.value), change.details())]
        for each, change in changes.items()
    ]
    numbers = Table(f"Numbers of: {title}", ["system", "difference"], rows)
    about = "An interval that crosses the upright line leaves open which of the two is better."
    return Shown(title, charts.forest(label, bars).markup(), numbers, about=about)


def _costs(
    costs: Mapping[str, Mapping[str, float]],
    ends: Mapping[str, Interval | None],
    name: str,
    prices: Prices,
) -> Shown:
    title = "Cost of a thousand questions"
    parts = [part for part in next(iter(costs.values())) if any(c[part] for c in costs.values())]
    rows = {each: [cost[part] for part in parts] for each, cost in costs.items()}
    description = f"What a thousand questions cost, made of {', '.join(parts) or 'nothing'}."
    label = Label(name, title, description, "in the currency of the prices", "")
    cells = [
        [Cell(each), *map(Cell, map(number, row)), Cell(number(sum(row)), interval(ends[each]))]
        for each, row in rows.items()
    ]
    head = ["system", *parts, "all"]
    numbers = Table(f"Numbers of: {title}", head, cells)
    legend = [(swatch(at, "area"), part) for at, part in enumerate(parts)]
    about = (
        f"At {prices.tokens_in:g} for a million tokens read, {prices.tokens_out:g} for a million "
        f"written and {prices.retrieval:g} for a thousand retrievals."
    )
    return Shown(title, charts.stacked(label, rows, parts, ends).markup(), numbers, legend, about)
