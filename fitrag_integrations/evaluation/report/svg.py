"""Draw inline SVG: an element tree and scales.

Colours and sizes of letters are left to the page's style sheet, by class, so that a drawing follows
the reader's light or dark setting. Texts are escaped by the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from fitrag_integrations.evaluation.figures.figure import visible

WIDTH, HEIGHT = 480.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 28.0, 34.0, 54.0
LETTER = 8.8  # width of a letter at the larger size, that of narrow screens
SHAPES = 6  # series differ by color and shape, then by dashes
CORNERS = (  # of the marks after the disc
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    ((-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4))
    + ((1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4)),
)


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
    """Return a range around numbers that ends on round ones.

    Args:
        values: The numbers.
        zero: Whether the range includes zero.
        whole: Whether the numbers are counts, for which it ends on whole ones.
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
    """SVG drawing under construction.

    Args:
        name: Identifier, unique in the page.
        title: Title for screen readers.
        description: Description for screen readers.
        height: Height of the view box.
    """

    def __init__(self, name: str, title: str, description: str, height: float = HEIGHT) -> None:
        ids = (f"{name}-title", f"{name}-desc")
        labelled = {"role": "img", "aria-labelledby": " ".join(ids)}
        self.root = Element(
            "svg",
            {"class": "chart", "viewBox": f"0 0 {_place(WIDTH)} {_place(height)}", **labelled},
        )
        for tag, key, text in zip(("title", "desc"), ids, (title, description), strict=True):
            SubElement(self.root, tag, {"id": key}).text = visible(text)

    @classmethod
    def small(cls, width: int, height: int, kind: str = "strip") -> Drawing:
        """Begin a drawing that only repeats what is beside it, and is hidden from screen readers.

        Args:
            width: Width of the view box.
            height: Its height.
            kind: Class in the style sheet.
        """
        made = cls.__new__(cls)
        made.root = Element(
            "svg", {"class": kind, "viewBox": f"0 0 {width} {height}", "aria-hidden": "true"}
        )
        return made

    def add(
        self, tag: str, kind: str = "", text: str = "", hint: str = "", **given: float | str
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
        self.add("polyline", kind, points=" ".join(f"{_place(x)},{_place(y)}" for x, y in points))

    def mark(self, series: int, x: float, y: float, hint: str = "", size: float = 4.5) -> None:
        """Mark a point by the shape of its series: disc, square, triangles, diamond, cross.

        Args:
            series: Number of the series.
            x: Place across.
            y: Place down.
            hint: Tooltip.
            size: Half of the width.
        """
        kind, r = series % SHAPES, size
        if kind == 0:
            d = f"M{_place(x - r)},{_place(y)}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0z"
        else:
            corners = (f"{_place(x + r * a)},{_place(y + r * b)}" for a, b in CORNERS[kind - 1])
            d = f"M{'L'.join(corners)}z"
        self.add("path", f"mark s{kind}", hint=hint, d=d)

    def markup(self) -> str:
        """Return the drawing as text for an HTML page."""
        return tostring(self.root, encoding="unicode")


def swatch(series: int, kind: str = "points") -> str:
    """Draw the sign of a series for a legend.

    Args:
        series: Number of the series.
        kind: "points", "line" or "area".
    """
    drawing = Drawing.small(28, 14, "swatch")
    if kind == "area":
        drawing.add("rect", f"fill s{series % SHAPES}", x=7, y=1, width=14, height=12)
        return drawing.markup()
    if kind == "line":
        drawing.line(1, 7, 27, 7, stroke(series))
    drawing.mark(series, 14, 7, size=5)
    return drawing.markup()


def stroke(series: int) -> str:
    """Return the classes of a series' line."""
    return f"line s{series % SHAPES} d{series // SHAPES % 3}"


def _place(value: float | str) -> str:
    """Write a coordinate in hundredths; texts as they are."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float | int) else str(value)
