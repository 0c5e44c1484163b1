"""Draw values beside each other with their intervals: points, rows about zero, stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fitrag_integrations.evaluation.figures.intervals import Interval
from fitrag_integrations.evaluation.report.charts.svg import (
    LEFT,
    LETTER,
    RIGHT,
    TOP,
    WIDTH,
    Drawing,
    Scale,
    bounds,
    frame,
)
from fitrag_integrations.evaluation.report.charts.upright import Bar, Label, hint_of, whisker
from fitrag_integrations.evaluation.words import clipped, number, tick

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
