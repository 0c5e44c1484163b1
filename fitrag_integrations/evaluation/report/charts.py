"""Charts as SVG: lines, columns, points, rows around zero, stacked bars.

`Label.name` is unique in the page; title and description are for screen readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fitrag_integrations.evaluation.figures.figure import Interval, clipped, interval, number, tick
from fitrag_integrations.evaluation.report.svg import (
    BOTTOM,
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
    stroke,
)

Points = Sequence[tuple[float, float]]
MARKED = 20  # a line of more points is drawn without marks
MOST = 400  # points of a line; more than that no screen shows
HEAD = 8.0  # room above rows
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Label:
    """Names of a drawing.

    Args:
        name: Identifier, unique in the page.
        title: Title for screen readers.
        description: Description for screen readers.
        x: Name of the axis across.
        y: Name of the axis up.
    """

    name: str
    title: str
    description: str
    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Value with an optional interval.

    Args:
        name: Name of the value.
        value: The value.
        bounds: Its interval.
        x: Place across.
    """

    name: str
    value: float
    bounds: Interval | None = None
    x: float = 0.0

    @property
    def hint(self) -> str:
        """Value and interval as one line."""
        text = f"{clipped(self.name, 60)}: {number(self.value)}"
        return text if self.bounds is None else f"{text} ({interval(self.bounds)})"


def lines(
    label: Label,
    series: Mapping[str, Points],
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, tuple[float, float]] | None = None,
) -> Drawing:
    """Draw a line for each series.

    Args:
        label: Names of the drawing.
        series: Points by series, joined in their order.
        levels: Heights of dotted lines by name.
        marks: Points to mark by name.
    """
    heights, marked = dict(levels or {}), dict(marks or {})
    every = [point for points in (*series.values(), [*marked.values()]) for point in points]
    tall = bounds([y for _, y in every] + list(heights.values()))
    wide = bounds([x for x, _ in every])
    if all(float(x).is_integer() for x, _ in every):  # begin at the first whole number
        wide = min(x for x, _ in every), max(max(x for x, _ in every), wide[0] + 1)
    drawing, across, up = _upright(label, wide, tall)
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
    taken: list[float] = []
    for name, value in sorted(heights.items(), key=lambda item: -item[1]):
        y = up(value) - 5
        if all(abs(y - other) > 17 for other in taken):  # names do not overlap
            taken.append(y)
            drawing.text(WIDTH - RIGHT - 2, y, clipped(name, 30), "note", "end")
    return drawing


def thinned(points: Points) -> Points:
    """Return at most `MOST` points, evenly spread, with the first and the last."""
    if len(points) <= MOST:
        return points
    return [points[round(i * (len(points) - 1) / (MOST - 1))] for i in range(MOST)]


def columns(
    label: Label,
    series: Mapping[str, Sequence[Bar]],
    groups: Sequence[str] = (),
    bins: Sequence[float] = (0.0,),
) -> Drawing:
    """Draw columns with whiskers, those of a group or a bin side by side.

    Args:
        label: Names of the drawing.
        series: Columns by series; `x` is the place of a group, from 0, or the left edge of a bin.
        groups: Names of the groups; empty for a histogram.
        bins: Left edges of the bins of a histogram, all equally wide.
    """
    step = step_of(bins)
    wide = (0.0, float(len(groups))) if groups else (bins[0], bins[-1] + step)
    tall = bounds(_ends(series.values()), zero=True, whole=not groups)
    drawing, across, up = _upright(label, wide, tall, x_ticks=not groups)
    room = max(3, int((across(1.0) - across(0.0)) / LETTER))
    for place, group in enumerate(groups):
        drawing.text(across(place + 0.5), up.start + 21, clipped(group, room))
    gap = 0.1 if groups else 0.08 * step
    part = (step - 2 * gap) / max(1, len(series))
    width = across(part) - across(0.0)
    for at, bars in enumerate(series.values()):
        for bar in bars:
            left, ends = across(bar.x + gap + at * part), sorted((up(bar.value), up(0.0)))
            drawing.add(
                "rect",
                f"fill s{at % SHAPES}",
                hint=bar.hint,
                x=left,
                y=ends[0],
                width=max(width - 1, 0.5),
                height=ends[1] - ends[0],
            )
            if bar.bounds is not None:
                low, high = ((left + width / 2, up(end)) for end in bar.bounds)
                _whisker(drawing, low, high)
    return drawing


def step_of(bins: Sequence[float]) -> float:
    """Return the width of bins from their left edges."""
    return min((b - a for a, b in zip(bins, bins[1:], strict=False)), default=1.0)


def _whisker(drawing: Drawing, one: tuple[float, float], other: tuple[float, float]) -> None:
    """Draw an interval, upright or across, with its ends."""
    drawing.line(*one, *other, "whisker")
    for x, y in (one, other):
        if one[0] == other[0]:
            drawing.line(x - 4, y, x + 4, y, "whisker")
        else:
            drawing.line(x, y - 4, x, y + 4, "whisker")


def points(label: Label, bars: Sequence[Bar]) -> Drawing:
    """Draw a named point for each, at its `x`, with its interval upright through it.

    Args:
        label: Names of the drawing.
        bars: The points.
    """
    low, high = bounds(_ends([bars]))
    high = min(high, 1.0) if max(_ends([bars])) <= 1 else high  # no share is above 1
    drawing, across, up = _upright(label, bounds([bar.x for bar in bars], zero=True), (low, high))
    taken: list[Box] = [(across(bar.x) - 6, up(bar.value) - 6, 12.0, 12.0) for bar in bars]
    for at, bar in enumerate(bars):
        x, y = across(bar.x), up(bar.value)
        if bar.bounds is not None:
            foot, top = (up(end) for end in bar.bounds)
            _whisker(drawing, (x, foot), (x, top))
            taken.append((x - 4, top, 8.0, foot - top))
        drawing.mark(at, x, y, bar.hint, 5.5)
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
        if (left > LEFT and left + width < WIDTH and TOP - 10 < box[1] < HEIGHT - 80) and all(
            left + width < x or x + w < left or box[1] + height < y or y + h < box[1]
            for x, y, w, h in taken
        ):
            taken.append(box)
            drawing.text(left if anchor == "start" else left + width, middle, name, "note", anchor)
            return


def forest(label: Label, bars: Sequence[Bar]) -> Drawing:
    """Draw a line for each value with its interval across, and an upright one at zero.

    Args:
        label: Names of the drawing.
        bars: The values.
    """
    drawing, left, across = _sideways(
        label, [bar.name for bar in bars], _ends([bars]), row=30.0, right=RIGHT
    )
    drawing.line(across(0.0), HEAD, across(0.0), HEAD + 30.0 * len(bars), "axis")
    for at, bar in enumerate(bars):
        y = HEAD + 30.0 * (at + 0.5)
        drawing.text(left, y + 5, clipped(bar.name, 18), "note", "end")
        if bar.bounds is not None:
            _whisker(drawing, (across(bar.bounds[0]), y), (across(bar.bounds[1]), y))
        drawing.mark(0, across(bar.value), y, bar.hint, 5.5)
    return drawing


def stacked(
    label: Label,
    rows: Mapping[str, Sequence[float]],
    parts: Sequence[str],
    intervals: Mapping[str, Interval | None],
) -> Drawing:
    """Draw a bar across for each row, made of its parts.

    Args:
        label: Names of the drawing.
        rows: Values of the parts by row.
        parts: Names of the parts.
        intervals: Interval of each row's sum.
    """
    ends = [end for each, row in rows.items() for end in intervals[each] or (sum(row),)]
    drawing, start, across = _sideways(label, [*rows], ends, row=34.0, right=70)
    for at, (each, values) in enumerate(rows.items()):
        y, left = HEAD + 34.0 * at + 6, across(0.0)
        drawing.text(start, y + 16, clipped(each, 18), "note", "end")
        for part, value in enumerate(values):
            width = max(across(value) - across(0.0), 0.0)
            hint = f"{clipped(each, 60)}, {parts[part]}: {number(float(value))}"
            drawing.add("rect", f"fill s{part}", hint=hint, x=left, y=y, width=width, height=22.0)
            left += width
        if (bounded := intervals[each]) is not None:
            low, high = map(across, bounded)
            _whisker(drawing, (low, y + 11), (high, y + 11))
            left = max(left, high)
        drawing.text(left + 6, y + 16, number(float(sum(values))), "note", "start")
    return drawing


def _ends(series: Iterable[Sequence[Bar]]) -> list[float]:
    """Return the numbers that an axis must include."""
    return [end for bars in series for bar in bars for end in (bar.value, *(bar.bounds or ()))]


def _upright(
    label: Label, x: Interval, y: Interval, *, x_ticks: bool = True
) -> tuple[Drawing, Scale, Scale]:
    """Begin a drawing with a grid, the numbers and the names of two axes."""
    drawing = Drawing(label.name, label.title, label.description)
    across, up = Scale(*x, LEFT, WIDTH - RIGHT), Scale(*y, HEIGHT - BOTTOM, TOP)
    for value in up.ticks():
        drawing.line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid")
        drawing.text(LEFT - 8, up(value) + 5, tick(value), anchor="end")
    drawing.line(LEFT, up.start, WIDTH - RIGHT, up.start, "axis")
    for value in across.ticks() if x_ticks else ():
        drawing.line(across(value), up.start, across(value), up.start + 5, "axis")
        drawing.text(across(value), up.start + 21, tick(value))
    drawing.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, clipped(label.x, 46), "name")
    cut = f" (axis from {tick(up.low)})" if up.low > 0 else ""
    drawing.text(6, 18, clipped(label.y, 50) + cut, "name", "start")
    return drawing, across, up


def _sideways(
    label: Label, names: Sequence[str], ends: Sequence[float], *, row: float, right: float
) -> tuple[Drawing, float, Scale]:
    """Begin a drawing of rows with a scale below them; also where the names of the rows end."""
    foot = HEAD + row * len(names)
    drawing = Drawing(label.name, label.title, label.description, foot + 50)
    left = min(max(len(clipped(name, 18)) for name in names) * LETTER + 12, 170.0)
    across = Scale(*bounds(ends, zero=True), left + 8, WIDTH - right)
    for value in across.ticks():
        drawing.line(across(value), HEAD, across(value), foot, "grid")
        drawing.text(across(value), foot + 19, tick(value))
    drawing.text((across.start + across.end) / 2, foot + 42, clipped(label.x, 46), "name")
    return drawing, left, across
