"""Small pieces of HTML for notebooks: every text escaped, styles inline, nothing fetched.

Colors are those of the page or transparent, so they work on light and dark backgrounds. There is no
script, link or image: a notebook shows everything whether it is trusted or not. ``Html`` is what
these functions built; anything else goes through ``escaped``.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NewType

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
    """Return parts that open when their title is clicked."""
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
