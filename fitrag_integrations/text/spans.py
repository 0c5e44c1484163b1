"""Spans ``[start, end)`` of a text: trimmed, merged, and joined to what a reader is shown."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, zip_longest
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]  # [start, end) in a text

ELLIPSIS = " … "
"""Marks what was left out between two parts of a line."""
LINES_LEFT_OUT = "\n…\n"
"""Marks the lines left out of a list, a table or a text around code."""


def trimmed(text: str, start: int, end: int) -> Span:
    """Return the span [start, end) of a text without surrounding blanks."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, max(start, end - len(piece) + len(piece.rstrip()))


def merge_spans(text: str, spans: Iterable[Span]) -> list[Span]:
    """Sort spans and join those that overlap or have only blanks between them."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and not text[merged[-1][1] : start].strip():
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def joined(text: str, spans: Iterable[Span], *, layout: bool = True) -> str:
    """Join slices of a text in order; gaps between slices that do not touch are marked.

    With ``layout`` the mark is on a separate line where lines were left out.
    """
    merged = merge_spans(text, spans)
    gaps = (gap_between(text, a, b) if layout else ELLIPSIS for (_, a), (b, _) in pairwise(merged))
    return "".join(
        text[slice(*span)] + gap for span, gap in zip_longest(merged, gaps, fillvalue="")
    )


def gap_between(text: str, start: int, end: int) -> str:
    """Return the mark for the text left out between two places."""
    return LINES_LEFT_OUT if "\n" in text[start:end] else ELLIPSIS
