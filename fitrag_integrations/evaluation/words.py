"""Write values for a reader: numbers, times and texts of which nobody knows what they hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# What would reorder a line, hide in it or not encode at all: C0 and C1, bidirectional controls,
# halves of surrogate pairs. Tabs and ends of lines stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """Show characters that act without being seen by their code, as `[U+202E]`."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def number(value: object, decimals: int | None = None) -> str:
    """Write a figure; a dash for None.

    Whole numbers stay whole, others have three decimals under 10, one under 1,000, and none above,
    unless told otherwise.
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(str(value))
    if isinstance(value, float) and decimals is None:
        size = abs(value)
        decimals = 3 if size < 9.9995 else 1 if size < 999.95 else 0
    return f"{value:,.{decimals or 0}f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    """Write a difference, with its sign."""
    if value is None:
        return NOTHING
    return number(value) if value < 0 else f"+{number(value)}"


def interval(bounds: tuple[float, float] | None, write: Callable[[Any], str] = number) -> str:
    """Write bounds, nothing where they are not known."""
    return "" if bounds is None else f"{write(bounds[0])} to {write(bounds[1])}"


def chance(p: float | None) -> str:
    """Write a probability of chance."""
    if p is None:
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def tick(value: float) -> str:
    """Write the number at a tick of an axis."""
    return f"{value:,.10g}".replace("-", MINUS)


def counted(count: int, noun: str) -> str:
    """Write a number of things."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clipped(text: str, most: int) -> str:
    """Shorten a name to so many characters."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def cut(text: str, most: int) -> tuple[str, int]:
    """Give at most so many characters of a text, and how many were left out."""
    return (text, 0) if len(text) <= most else (text[:most], len(text) - most)
