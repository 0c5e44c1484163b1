"""Draw inline SVG: an element tree, scales and axes.

Colours and sizes of letters are left to the page's style sheet, by class, so that a drawing follows
the reader's light or dark setting. Texts are escaped by the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from fitrag_integrations.evaluation.figures.figure import tick, visible

WIDTH, HEIGHT = 480.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 28.0, 34.0, 54.0
LETTER = 8.8  # width of a letter at the larger size, that of narrow screens
SHAPES = 6  # series differ by color and shape, then by dashes


@dataclass(frozen=True, slots=True)
class Scale:
    """Place numbers between two ends of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a number."""
        part = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + part * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round numbers inside the scale."""
        step = _round_step((self.high - self.low) / about)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def bounds(
    values: Sequence[float], *, zero: bool = False, whole: bool = False
) -> tuple[float, float]:
    """Return a range around numbers that ends on round ones, whole ones for counts.

    With `zero` it holds zero.
    """
    low, high = min(values), max(values)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # no tick could separate them
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    step = max(_round_step((high - low) / 5), 1.0 if whole else 0.0)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def _round_step(rough: float) -> float:
    if not (rough > 0 and math.isfinite(rough)):
        return 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * part for part in (1, 2, 5, 10) if size * part >= rough * 0.999)


class Drawing:
    """SVG drawing under construction; `name` is unique in the page."""

    def __init__(self, name: str, title: str, description: str, height: float = HEIGHT) -> None:
        ids = (f"{name}-title", f"{name}-desc")
        self.height = height
        self.root = Element(
            "svg",
            {
                "class": "chart",
                "viewBox": f"0 0 {_place(WIDTH)} {_place(height)}",
                "role": "img",
                "aria-labelledby": " ".join(ids),
            },
        )
        for tag, key, text in zip(("title", "desc"), ids, (title, description), strict=True):
            SubElement(self.root, tag, {"id": key}).text = visible(text)

    @classmethod
    def small(cls, width: float, height: float) -> Drawing:
        """Begin a drawing that only repeats the number beside it, and is read to nobody."""
        made = cls.__new__(cls)
        made.height = height
        box = f"0 0 {_place(width)} {_place(height)}"
        made.root = Element("svg", {"class": "strip", "viewBox": box, "aria-hidden": "true"})
        return made

    def add(
        self, tag: str, kind: str = "", text: str = "", hint: str = "", **given: Any
    ) -> Element:
        """Add an element of a class; `hint` is its tooltip."""
        attributes = {"class": kind} if kind else {}
        attributes |= {key.replace("_", "-"): _place(value) for key, value in given.items()}
        made = SubElement(self.root, tag, attributes)
        if text:
            made.text = visible(text)
        if hint:
            SubElement(made, "title").text = visible(hint)
        return made

    def text(
        self, x: float, y: float, text: str, kind: str = "tick", anchor: str = "middle"
    ) -> None:
        """Write a text."""
        self.add("text", kind, text, x=x, y=y, text_anchor=anchor)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a straight line."""
        self.add("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Join points by straight lines."""
        joined = " ".join(f"{_place(x)},{_place(y)}" for x, y in points)
        self.add("polyline", kind, points=joined)

    def mark(self, series: int, x: float, y: float, hint: str = "", size: float = 4.5) -> None:
        """Mark a point by the shape of its series."""
        self.add("path", f"mark s{series % SHAPES}", hint=hint, d=_shape(series, x, y, size))

    def markup(self) -> str:
        """Return the drawing as text for an HTML page."""
        return tostring(self.root, encoding="unicode")


def frame(
    drawing: Drawing,
    x: tuple[float, float],
    y: tuple[float, float],
    names: tuple[str, str],
    *,
    x_ticks: bool = True,
) -> tuple[Scale, Scale]:
    """Draw the grid, the numbers and the names of two axes; gives their scales."""
    across = Scale(*x, LEFT, WIDTH - RIGHT)
    up = Scale(*y, drawing.height - BOTTOM, TOP)
    for value in up.ticks():
        drawing.line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid")
        drawing.text(LEFT - 8, up(value) + 5, tick(value), anchor="end")
    drawing.line(LEFT, up.start, WIDTH - RIGHT, up.start, "axis")
    for value in across.ticks() if x_ticks else ():
        drawing.line(across(value), up.start, across(value), up.start + 5, "axis")
        drawing.text(across(value), up.start + 21, tick(value))
    drawing.text((LEFT + WIDTH - RIGHT) / 2, drawing.height - 10, names[0], "name")
    cut = f" (axis from {tick(up.low)})" if up.low > 0 else ""
    drawing.text(6, 18, names[1] + cut, "name", "start")
    return across, up


def swatch(series: int, kind: str = "points") -> str:
    """Draw the sign of a series, for a legend: of points, of a line or of a filled area."""
    root = Element("svg", {"class": "swatch", "viewBox": "0 0 28 14", "aria-hidden": "true"})
    if kind == "area":
        size = {"x": "7", "y": "1", "width": "14", "height": "12"}
        SubElement(root, "rect", {"class": f"fill s{series % SHAPES}", **size})
        return tostring(root, encoding="unicode")
    if kind == "line":
        ends = {"x1": "1", "y1": "7", "x2": "27", "y2": "7"}
        SubElement(root, "line", {"class": stroke(series), **ends})
    mark = {"class": f"mark s{series % SHAPES}", "d": _shape(series, 14, 7, 5)}
    SubElement(root, "path", mark)
    return tostring(root, encoding="unicode")


def stroke(series: int) -> str:
    """Return the classes of a series' line."""
    return f"line s{series % SHAPES} d{series // SHAPES % 3}"


def _shape(series: int, x: float, y: float, r: float) -> str:
    """Return the outline of a mark: disc, square, two triangles, diamond, cross."""
    kind = series % SHAPES
    if kind == 0:
        return f"M{_place(x - r)},{_place(y)}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0z"
    corners = (
        ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
        ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
        ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
        ((-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4))
        + ((1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4)),
    )[kind - 1]
    return "M" + "L".join(f"{_place(x + r * a)},{_place(y + r * b)}" for a, b in corners) + "z"


def _place(value: Any) -> str:
    """Write a coordinate in hundredths; texts as they are."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float | int) else str(value)
