"""Draw lines, histograms, bars and points with intervals, each in one call.

Every function gives the drawing and the names of its series, for the legend beneath. `name` is
unique in the page, `title` and `description` are read to who does not see the drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fitrag_integrations.evaluation.report.charts.svg import (
    HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    SHAPES,
    WIDTH,
    Drawing,
    Scale,
    bounds,
    frame,
    stroke,
)
from fitrag_integrations.evaluation.words import clipped, interval, number

Points = Sequence[tuple[float, float]]
MARKED = 20  # a line of more points is drawn without marks
MOST = 400  # points of a line; more than that no screen shows


@dataclass(frozen=True, slots=True)
class Label:
    """Say what a drawing is called: in the page, to a reader, and on its axes."""

    name: str
    title: str
    description: str
    x: str
    y: str

    def drawing(self, height: float = HEIGHT) -> Drawing:
        """Begin the drawing."""
        return Drawing(self.name, self.title, self.description, height)

    @property
    def axes(self) -> tuple[str, str]:
        """Give the names of the axes, cut to what fits."""
        return clipped(self.x, 46), clipped(self.y, 50)


@dataclass(frozen=True, slots=True)
class Bar:
    """Hold a value with its interval, where there is one."""

    name: str
    value: float
    bounds: tuple[float, float] | None = None
    x: float = 0.0

    @property
    def ends(self) -> tuple[float, ...]:
        """Give all numbers that an axis has to hold."""
        return (self.value, *(self.bounds or ()))


def lines(
    label: Label,
    series: Mapping[str, Points],
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, tuple[float, float]] | None = None,
) -> Drawing:
    """Draw a line for each series, dotted ones at the levels with their names, and the marks."""
    drawing, heights, marked = label.drawing(), dict(levels or {}), dict(marks or {})
    every = [point for points in (*series.values(), [*marked.values()]) for point in points]
    tall = bounds([y for _, y in every] + list(heights.values()))
    wide = bounds([x for x, _ in every])
    whole = all(float(x).is_integer() for x, _ in every)
    across, up = frame(drawing, _tight(wide, every) if whole else wide, tall, label.axes)
    for value in heights.values():
        drawing.line(LEFT, up(value), WIDTH - RIGHT, up(value), "level")
    for at, (name, points) in enumerate(series.items()):
        shown = thinned(points)
        drawing.path([(across(x), up(y)) for x, y in shown], stroke(at))
        for x, y in shown if len(shown) <= MARKED else [shown[0], shown[-1]]:
            hint = f"{clipped(name, 60)}: {number(float(y))} at {number(x)}"
            drawing.mark(at, across(x), up(y), hint, 4.0)
    for at, (name, (x, y)) in enumerate(marked.items(), start=len(series)):
        hint = f"{clipped(name, 60)}: {number(y)} at {number(x)}"
        drawing.mark(at, across(x), up(y), hint, 6.0)
    _named(drawing, up, heights)
    return drawing


def _tight(wide: tuple[float, float], every: Points) -> tuple[float, float]:
    """Let an axis of whole numbers begin at the first of them."""
    return min(x for x, _ in every), max(max(x for x, _ in every), wide[0] + 1)


def _named(drawing: Drawing, up: Scale, levels: Mapping[str, float]) -> None:
    """Name the levels, over whatever crosses them, as far as their names do not meet."""
    taken: list[float] = []
    for name, value in sorted(levels.items(), key=lambda item: -item[1]):
        y = up(value) - 5
        if all(abs(y - other) > 17 for other in taken):
            taken.append(y)
            drawing.text(WIDTH - RIGHT - 2, y, clipped(name, 30), "note", "end")


def thinned(points: Points) -> Points:
    """Give at most `MOST` points, evenly spread, the first and the last among them."""
    if len(points) <= MOST:
        return points
    return [points[round(i * (len(points) - 1) / (MOST - 1))] for i in range(MOST)]


def histogram(label: Label, series: Mapping[str, Points]) -> Drawing:
    """Draw how many fall into each bin, the series of a bin side by side."""
    drawing = label.drawing()
    edges = sorted({float(x) for points in series.values() for x, _ in points})
    width = min((b - a for a, b in zip(edges, edges[1:], strict=False)), default=1.0)
    tall = bounds([float(y) for ys in series.values() for _, y in ys], zero=True, whole=True)
    across, up = frame(drawing, (edges[0], edges[-1] + width), tall, label.axes)
    part = 0.84 * width / len(series)
    for at, (name, points) in enumerate(series.items()):
        for x, y in points:
            left = across(float(x) + 0.08 * width + at * part)
            hint = f"{clipped(name, 60)}, {number(x)} to {number(x + width)}: {number(y)}"
            _column(drawing, at, left, across(part) - across(0.0), up(float(y)), up.start, hint)
    return drawing


def columns(label: Label, groups: Sequence[str], series: Mapping[str, Sequence[Bar]]) -> Drawing:
    """Draw groups of columns with whiskers; `x` of a bar is the place of its group, from 0."""
    drawing = label.drawing()
    every = [bar for bars in series.values() for bar in bars]
    ends = [end for bar in every for end in bar.ends]
    across, up = frame(
        drawing, (0.0, float(len(groups))), bounds(ends, zero=True), label.axes, x_ticks=False
    )
    part = 0.8 / max(1, len(series))
    room = int((across(1.0) - across(0.0)) / LETTER)
    for place, group in enumerate(groups):
        drawing.text(across(place + 0.5), up.start + 21, clipped(group, max(3, room)))
    for at, bars in enumerate(series.values()):
        for bar in bars:
            left, width = across(bar.x + 0.1 + at * part), across(part) - across(0.0)
            _column(drawing, at, left, width, up(bar.value), up(0.0), hint_of(bar))
            if bar.bounds is not None:
                low, high = ((left + width / 2, up(end)) for end in bar.bounds)
                whisker(drawing, low, high)
    return drawing


def _column(
    drawing: Drawing, at: int, left: float, width: float, top: float, foot: float, hint: str
) -> None:
    y, height = min(top, foot), abs(foot - top)
    kind = f"fill s{at % SHAPES}"
    drawing.add("rect", kind, hint=hint, x=left, y=y, width=max(width - 1, 0.5), height=height)


def whisker(drawing: Drawing, one: tuple[float, float], other: tuple[float, float]) -> None:
    """Draw an interval, upright or across, with its ends."""
    drawing.line(*one, *other, "whisker")
    for x, y in (one, other):
        if one[0] == other[0]:
            drawing.line(x - 4, y, x + 4, y, "whisker")
        else:
            drawing.line(x, y - 4, x, y + 4, "whisker")


def hint_of(bar: Bar) -> str:
    """Tell a value and its interval in a line."""
    told = f"{clipped(bar.name, 60)}: {number(float(bar.value))}"
    return told if bar.bounds is None else f"{told} ({interval(bar.bounds)})"
