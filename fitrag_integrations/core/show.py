"""Display of values: in one line, in a few lines, and as HTML in a notebook.

``Shown`` is the base of every result; by default it shows field by field. In HTML every text is
escaped, styles are inline and nothing is fetched. Colors are those of the page or transparent, so
they work on light and dark backgrounds. There is no script, link or image: a notebook shows
everything whether it is trusted or not. ``Html`` is what the functions here built; anything else
goes through ``escaped``.
"""

from __future__ import annotations

import html
import reprlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, NewType

Html = NewType("Html", str)

_CARD = (
    "border:1px solid rgba(128,128,128,.45);border-radius:6px;padding:.4em .8em;margin:.3em 0;"
    "line-height:1.45;text-align:left"
)
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere;max-height:24em;overflow:auto;text-align:left"
_MARK = "background:rgba(255,196,0,.4);color:inherit;border-radius:2px"
_CELL = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;white-space:pre-wrap"
# Unseen signs that shape words, join emoji or only lean a neighbour to one side: left as they are.
_HARMLESS = frozenset("\n\t\u00ad\u061c\u200c\u200d\u200e\u200f")


def escaped(value: object) -> Html:
    """Escape a text and name characters that cannot be seen: an override becomes <U+202E>."""
    return Html(html.escape(named_signs(str(value))))


def named_signs(text: str, *, harmless: frozenset[str] = _HARMLESS) -> str:
    """Name the characters of a text that cannot be seen, but for blanks and harmless ones."""
    if text.isprintable():
        return text
    return "".join(
        sign
        if sign.isprintable() or sign in harmless or unicodedata.category(sign) == "Zs"
        else f"<U+{ord(sign):04X}>"
        for sign in text
    )


def marked(text: str, spans: Iterable[tuple[int, int]], *, grey: bool = False) -> Html:
    """Return the whole text with these spans in ``<mark>``; with ``grey`` the rest fades.

    Spans are in order and do not overlap.
    """
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts.append(_rest(text[last:start], grey))
        parts.append(f'<mark style="{_MARK}">{escaped(text[start:end])}</mark>')
        last = end
    return Html("".join([*parts, _rest(text[last:], grey)]))


def block(inner: Html) -> Html:
    """Return a text block in its own direction; a long one scrolls."""
    return Html(f'<div dir="auto" style="{_TEXT}">{inner}</div>')


def card(title: str, *parts: Html) -> Html:
    """Return parts in a frame under a title."""
    return Html(f'<div style="{_CARD}"><b dir="auto">{escaped(title)}</b>{"".join(parts)}</div>')


def folded(title: str, *parts: Html, shown: bool = False) -> Html:
    """Return parts that open when their title is clicked; with ``shown`` they are open at first."""
    opened = " open" if shown else ""
    head = f'<summary style="cursor:pointer" dir="auto">{escaped(title)}</summary>'
    return Html(f"<details{opened}>{head}{''.join(parts)}</details>")


def table(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table of plain values; without columns it has no header."""
    head = "".join(f'<th style="{_CELL}">{escaped(name)}</th>' for name in columns)
    cells = [
        "".join(f'<td style="{_CELL}" dir="auto">{escaped(value)}</td>' for value in row)
        for row in rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    top = f"<thead><tr>{head}</tr></thead>" if columns else ""
    frame = 'style="border-collapse:collapse;margin:.2em 0;display:block;overflow-x:auto"'
    return Html(f"<table {frame}>{top}<tbody>{body}</tbody></table>")


def _rest(text: str, grey: bool) -> Html:
    return Html(f'<span style="opacity:.55">{escaped(text)}</span>') if grey else escaped(text)


ROWS = 20  # rows shown of what a result holds


def visible(text: str) -> str:
    """Return a text as a terminal may show it: an escape sequence begins with `<U+001B>`.

    Controls, marks of direction and other signs that cannot be seen are named by their codes.
    """
    return named_signs(text.replace("\r\n", "\n"), harmless=frozenset("\n\t\u00ad\u200c\u200d"))


class Visible:
    """Mixin whose `str()` and `explain()` pass through `visible`."""

    __slots__ = ()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for name in {"__str__", "explain"} & set(vars(cls)):
            setattr(cls, name, _made_visible(vars(cls)[name]))


def _made_visible(show: Callable[..., str]) -> Callable[..., str]:
    return wraps(show)(lambda self, **how: visible(show(self, **how)))


class Shown(Visible):
    """Mixin that shows a dataclass in one line, in a few lines and as HTML."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return one line."""
        shown = (f"{name} {brief(value)}" for name, value in _values(self))
        return shortened(f"{type(self).__name__}: {', '.join(shown)}", most=200)

    def explain(self) -> str:
        """Return a few lines, one per field."""
        lines = (f"{name}: {brief(value)}" for name, value in _values(self))
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        """Return HTML for a notebook; every text is escaped."""
        return card(type(self).__name__, *_drawn(self))


def brief(value: object) -> str:
    """Return a field's value in a few words."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list) and value and is_dataclass(value[0]):
        return f"{len(value)} {type(value[0]).__name__}"
    return shortened(str(value) if isinstance(value, Shown | int) else value)


def shortened(value: object, *, most: int = 100) -> str:
    """Return a value in one line of at most ``most`` characters."""
    if isinstance(value, str):
        line = " ".join(value.split())
        return line if len(line) <= most else f"{line[: most - 1]}…"
    return reprlib.repr(value)


def describe_error(error: BaseException) -> str:
    """Return the class and the message of an error."""
    return visible(f"{type(error).__name__}: {error}")


def error_line(error: BaseException) -> str:
    """Return the class and the message of an error in one short line."""
    return visible(f"{type(error).__name__}: {shortened(str(error))}")


def lines_html(lines: Iterable[str]) -> Html:
    """Return lines as a table with one row each."""
    return table((), [(line,) for line in lines])


def _values(value: Any) -> list[tuple[str, Any]]:
    return [(spec.name, getattr(value, spec.name)) for spec in fields(value) if spec.repr]


def _drawn(value: object) -> Iterator[Html]:
    """Yield a table of the fields, and below it a table for each field that holds several
    results.
    """
    held = _values(value)
    yield table((), [(name, brief(one)) for name, one in held])
    for name, one in held:
        if isinstance(one, tuple | list) and one and is_dataclass(one[0]):
            drawn = [[brief(each) for _, each in _values(record)] for record in one[:ROWS]]
            rest = [[f"… and {len(one) - ROWS} more"]] if len(one) > ROWS else []
            columns = [field for field, _ in _values(one[0])]
            yield folded(name, table(columns, [*drawn, *rest]))


class Named:
    """Object whose ``repr`` is its name, or its class's name."""

    def __init__(self, value: object) -> None:
        self.name = name_of(value)

    def __repr__(self) -> str:
        return self.name


def name_of(value: object) -> str:
    """Return a text unchanged, a function's name, or the name of an object's class."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", type(value).__name__))
