"""Charts as SVG: lines, histograms, columns, points, rows around zero, stacked bars.

`Label.name` is unique in the page; title and description are for screen readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fitrag_integrations.evaluation.figures.figure import Interval, clipped, interval, number, tick
from fitrag_integrations.evaluation.report.svg import (
    HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    SHAPES,
    TOP,
    WIDTH,
    Drawing,
    Scale,
    bounds,
    frame,
    stroke,
)

Points = Sequence[tuple[float, float]]
MARKED = 20  # a line of more points is drawn without marks
MOST = 400  # points of a line; more than that no screen shows


@dataclass(frozen=True, slots=True)
class Label:
    """Names of a drawing: in the page, for screen readers, and on its axes."""

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
        """Names of the axes, truncated to fit."""
        return clipped(self.x, 46), clipped(self.y, 50)


@dataclass(frozen=True, slots=True)
class Bar:
    """Value with an optional interval."""

    name: str
    value: float
    bounds: tuple[float, float] | None = None
    x: float = 0.0

    @property
    def ends(self) -> tuple[float, ...]:
        """Numbers that the axis must include."""
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
    if all(float(x).is_integer() for x, _ in every):  # begin at the first whole number
        wide = min(x for x, _ in every), max(max(x for x, _ in every), wide[0] + 1)
    across, up = frame(drawing, wide, tall, label.axes)
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


def _named(drawing: Drawing, up: Scale, levels: Mapping[str, float]) -> None:
    """Draw the names of the levels that do not overlap."""
    taken: list[float] = []
    for name, value in sorted(levels.items(), key=lambda item: -item[1]):
        y = up(value) - 5
        if all(abs(y - other) > 17 for other in taken):
            taken.append(y)
            drawing.text(WIDTH - RIGHT - 2, y, clipped(name, 30), "note", "end")


def thinned(points: Points) -> Points:
    """Return at most `MOST` points, evenly spread, with the first and the last."""
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
    """Return a value and its interval as one line."""
    text = f"{clipped(bar.name, 60)}: {number(float(bar.value))}"
    return text if bar.bounds is None else f"{text} ({interval(bar.bounds)})"


Box = tuple[float, float, float, float]


def points(label: Label, bars: Sequence[Bar]) -> Drawing:
    """Draw a named point for each, at its `x`, with its interval upright through it."""
    drawing = label.drawing()
    ends = [end for bar in bars for end in bar.ends]
    wide = bounds([bar.x for bar in bars], zero=True)
    low, high = bounds(ends)
    high = min(high, 1.0) if max(ends) <= 1 else high  # no share is above 1
    across, up = frame(drawing, wide, (low, high), label.axes)
    taken: list[Box] = [(across(bar.x) - 6, up(bar.value) - 6, 12.0, 12.0) for bar in bars]
    for at, bar in enumerate(bars):
        x, y = across(bar.x), up(bar.value)
        if bar.bounds is not None:
            foot, top = (up(end) for end in bar.bounds)
            whisker(drawing, (x, foot), (x, top))
            taken.append((x - 4, top, 8.0, foot - top))
        drawing.mark(at, x, y, hint_of(bar), 5.5)
    for bar in bars:
        _beside(drawing, taken, across(bar.x), up(bar.value), clipped(bar.name, 18))
    return drawing


def _beside(drawing: Drawing, taken: list[Box], x: float, y: float, name: str) -> None:
    """Write a name where there is room for it near its point; leave it to the legend elsewhere."""
    width, height = LETTER * len(name), 17.0
    for anchor, left, middle in (
        ("start", x + 10, y + 5),
        ("end", x - 10 - width, y + 5),
        ("start", x + 7, y - 9),
        ("start", x + 7, y + 19),
        ("end", x - 7 - width, y - 9),
        ("end", x - 7 - width, y + 19),
    ):
        box = (left, middle - 13, width, height)
        inside = left > LEFT and left + width < WIDTH and TOP - 10 < box[1] < drawing.height - 80
        if inside and not any(_meet(box, other) for other in taken):
            taken.append(box)
            drawing.text(left if anchor == "start" else left + width, middle, name, "note", anchor)
            return


def _meet(one: Box, other: Box) -> bool:
    apart = one[0] + one[2] < other[0] or other[0] + other[2] < one[0]
    return not (apart or one[1] + one[3] < other[1] or other[1] + other[3] < one[1])


def forest(label: Label, bars: Sequence[Bar]) -> Drawing:
    """Draw a line for each value with its interval across, and an upright one at zero."""
    row, head = 30.0, 8.0
    drawing = label.drawing(head + row * len(bars) + 50)
    name = min(max(len(clipped(bar.name, 18)) for bar in bars) * LETTER + 12, 170.0)
    ends = [end for bar in bars for end in bar.ends]
    across = Scale(*bounds(ends, zero=True), name + 8, WIDTH - RIGHT)
    foot = head + row * len(bars)
    _below(drawing, across, foot, label.axes[0])
    drawing.line(across(0.0), head, across(0.0), foot, "axis")
    for at, bar in enumerate(bars):
        y = head + row * (at + 0.5)
        drawing.text(name, y + 5, clipped(bar.name, 18), "note", "end")
        if bar.bounds is not None:
            whisker(drawing, (across(bar.bounds[0]), y), (across(bar.bounds[1]), y))
        drawing.mark(0, across(bar.value), y, hint_of(bar), 5.5)
    return drawing


def stacked(
    label: Label,
    rows: Mapping[str, Sequence[float]],
    parts: Sequence[str],
    intervals: Mapping[str, Interval | None],
) -> Drawing:
    """Draw a bar across for each row, made of its parts, with the interval of their sum."""
    row, head = 34.0, 8.0
    drawing = label.drawing(head + row * len(rows) + 50)
    name = min(max(len(clipped(each, 18)) for each in rows) * LETTER + 12, 170.0)
    ends = [end for each, row in rows.items() for end in intervals[each] or (sum(row),)]
    across = Scale(*bounds(ends, zero=True), name + 8, WIDTH - 70)
    _below(drawing, across, head + row * len(rows), label.axes[0])
    for at, (each, values) in enumerate(rows.items()):
        y, left = head + row * at + 6, across(0.0)
        drawing.text(name, y + 16, clipped(each, 18), "note", "end")
        for part, value in enumerate(values):
            width = across(value) - across(0.0)
            hint = f"{clipped(each, 60)}, {parts[part]}: {number(float(value))}"
            kind = f"fill s{part}"
            drawing.add(
                "rect", kind, hint=hint, x=left, y=y, width=max(width, 0.0), height=row - 12
            )
            left += width
        if (bounded := intervals[each]) is not None:
            low, high = map(across, bounded)
            whisker(drawing, (low, y + row / 2 - 6), (high, y + row / 2 - 6))
            left = max(left, high)
        drawing.text(left + 6, y + 16, number(float(sum(values))), "note", "start")
    return drawing


def _below(drawing: Drawing, across: Scale, foot: float, name: str) -> None:
    for value in across.ticks():
        drawing.line(across(value), 8.0, across(value), foot, "grid")
        drawing.text(across(value), foot + 19, tick(value))
    drawing.text((across.start + across.end) / 2, foot + 42, name, "name")
