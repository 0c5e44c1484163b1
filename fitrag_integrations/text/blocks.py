"""Part a text into blocks of lines: paragraphs, list items, headings, table rows, code.

Markdown is read as far as it says where something ends; nothing is removed or rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

WRAPPED = 50
"""A line of at least so many columns counts as wrapped prose: it runs on into the next."""

# A list item, a numbered or marked heading, a table row or a table's heading.
_ITEM = re.compile(
    r"\s*(?:[-*+•‣◦▪▫●○■□►✓✔✗–—]\s|#{1,6}\s|\||\(?\d{1,3}[.)]\s|\(?[a-zA-Z]\)\s|\(?[ivxlcIVXLC]+\)\s"
    r"|\d{1,2}(?:\.\d{1,2})+\.?\s+[A-ZÀ-Þ]|[(（]?[一二三四五六七八九十]{1,3}[)）、]|[①-⑳])"
)
_ROW = re.compile(r"\s*[|#]|[^|]*\S\s\|\s\S|[^\t]*\S\t+\S")
_LINE_OF_SIGNS = re.compile(r"[\W_]+\Z")  # what underlines a heading, or parts the rows of a table
_FENCE = re.compile(r"\s{0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]")


def blocks_of(text: str) -> Iterator[tuple[int, int, bool]]:
    """Give [start, end) of each block, and whether it is a fenced block of code.

    Together they are the whole text.
    """
    lines = text.splitlines(keepends=True)
    fences = dict(_fences(lines))
    start = at = 0
    while at < len(lines):
        after = fences.get(at, 0) or _paragraph(lines, at, fences)
        end = start + sum(map(len, lines[at:after]))
        yield start, end, at in fences
        start, at = end, after


def _paragraph(lines: Sequence[str], first: int, fences: dict[int, int]) -> int:
    """Join lines that run on into each other; give the line after them."""
    at = first + 1
    while at < len(lines) and at not in fences and not _breaks(lines[at - 1], lines[at]):
        at += 1
    return at


def _breaks(line: str, following: str) -> bool:
    if not line.strip() or not following.strip():
        return True
    if _LINE_OF_SIGNS.match(following):
        return False
    if _LINE_OF_SIGNS.match(line) or _ITEM.match(following):
        return True
    if _ROW.match(line) or _ROW.match(following):
        return True
    return _columns(line.strip()) < WRAPPED and not following.lstrip()[0].islower()


def _columns(line: str) -> int:
    """Count the columns of a line, of which an ideograph takes two."""
    wide = WRAPPED / 2 <= len(line) < WRAPPED
    return len(line) + (len(_WIDE.findall(line)) if wide else 0)


def _fences(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give the first line of each fenced block of code, and the line after it.

    A fence that nothing closes is an ordinary line: in a text that was cut out of another, it may
    be the end of a block whose beginning is not here.
    """
    opened, mark = -1, ""
    for at, line in enumerate(lines):
        found = _FENCE.match(line)
        if not found:
            continue
        fence, told = found[1], line[found.end() :].strip()
        if opened >= 0 and not told and fence.startswith(mark):
            yield opened, at + 1
            opened = -1
        elif opened < 0 or (told and fence[0] == mark[0]):
            opened, mark = at, fence
