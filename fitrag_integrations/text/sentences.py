"""Split a text into sentences by offsets, over syntok.

``blocks`` parts the lines, ``boundaries`` finds where a sentence of prose begins, and this file
cuts what would be too long. Every span is non-empty, inside the text, after the one before, and
free of blanks at its ends; together they cover every character that is not blank.

Left out: languages that write neither blanks nor a sign at the end of a sentence, such as Thai;
their texts are cut by length alone.

Methods cut passages with it, and retrieval cuts files; users find it in ``methods``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, TypeAlias

from fitrag_integrations.core.checks import check_callable, check_text
from fitrag_integrations.text.blocks import BLANK, CODE, blocks_of
from fitrag_integrations.text.boundaries import starts_of

Splitter: TypeAlias = Callable[[str], list[tuple[int, int]]]  # [start, end) in the text
SentenceSplitter: TypeAlias = Annotated[Splitter, check_callable]
MAX_WORDS = 80
"""A longer sentence (a table, a text without stops) is cut into pieces of so many words."""
MAX_CHARACTERS = 800
"""No piece is longer; a word beyond it (a long URL, a text without blanks) is cut inside."""
MAX_CODE = 2000
"""A block of code of at most so many characters stays whole; a longer one is cut at blank lines."""
TEXTS, LONGEST = 2048, 4096
"""Of so many texts met last, none of more characters, the spans are kept: passages come again."""

_WORD = re.compile(r"\S+")
_BLANK_LINES = re.compile(r"\n(?=[^\S\n]*\n)")
# Where a piece is best cut: between lines, after a stop, or else after a pause.
_GAPS = (re.compile(r"\s*\n"), re.compile(r"(?<=[.!?;:…])\s"), re.compile(r"(?<=[,،、，])\s"))


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return [start, end) of each sentence of ``text``, in characters and in order.

    A blank line, a list item, a heading and a table row end a sentence. So does any other line
    break, unless the line is long enough to be wrapped prose, the next one begins in lower case or
    is indented below its list item. A block of code (fenced, indented, at a prompt) is a sentence
    of its own.

    What is longer than ``MAX_WORDS`` or ``MAX_CHARACTERS`` is cut, between lines where there are
    any, else after a stop or a comma, and never inside a sign made of several characters. Code is
    cut only beyond ``MAX_CODE`` characters, at its blank lines.
    """
    check_text("text", text)
    return list(_split(text) if len(text) <= LONGEST else _split.__wrapped__(text))


@lru_cache(maxsize=TEXTS)
def _split(text: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    for start, end, kind, _ in blocks_of(text):
        if kind == BLANK:
            continue
        if kind == CODE:
            spans.extend(_code(text, start, end))
            continue
        block = text[start:end]
        for first, last in pairwise([*starts_of(block), len(block)]):
            spans.extend(_pieces(text, start + first, start + last))
    return tuple(spans)


def _code(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut code at blank lines into parts of at most MAX_CODE characters; a longer part as prose."""
    gaps = [gap.start() for gap in _BLANK_LINES.finditer(text, start, end)]
    at = last = start
    for cut in [*gaps, end]:
        if cut - at > MAX_CODE and last > at:
            yield from _pieces(text, at, last, code=True)
            at = last
        last = cut
    yield from _pieces(text, at, end, code=True)


def _pieces(text: str, start: int, end: int, *, code: bool = False) -> Iterator[tuple[int, int]]:
    """Cut a span into pieces of at most MAX_WORDS words and MAX_CHARACTERS characters; code of at
    most MAX_CODE characters stays whole.
    """
    piece = text[start:end]
    body = piece.strip()
    whole = len(piece) <= MAX_CHARACTERS and len(piece.split()) <= MAX_WORDS
    if whole or (code and len(body) <= MAX_CODE):
        if body:
            first = start + piece.index(body)
            yield first, first + len(body)
        return
    words = list(_words(text, start, end))
    at = 0
    while at < len(words):
        after = _cut(text, words, at)
        yield words[at][0], words[after - 1][1]
        at = after


def _cut(text: str, words: Sequence[tuple[int, int]], at: int) -> int:
    """Find the word after the piece that begins with word ``at``."""
    after = min(at + MAX_WORDS, len(words))
    while words[after - 1][1] - words[at][0] > MAX_CHARACTERS:
        after -= 1
    if after == len(words):
        return after
    for gap in _GAPS:  # in the second half, so that no piece is a mere remainder
        for best in range(after, (at + after + 1) // 2, -1):
            if gap.match(text, words[best - 1][1]):
                return best
    return after


def _words(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for word in _WORD.finditer(text, start, end):
        at = word.start()
        while word.end() - at > MAX_CHARACTERS:
            cut = _between_signs(text, at, at + MAX_CHARACTERS)
            yield at, cut
            at = cut
        yield at, word.end()


def _between_signs(text: str, start: int, cut: int) -> int:
    """Move a cut back so that no emoji or accented letter is torn, unless it is one huge sign."""
    import regex  # type: ignore[import-untyped]  # comes with syntok

    last = cut
    for sign in regex.finditer(
        r"\X", text[start : cut + 1]
    ):  # a slice, as flags pair from its start
        if 0 < sign.start() <= cut - start:
            last = start + sign.start()
    return last


__all__ = ["MAX_CHARACTERS", "MAX_WORDS", "SentenceSplitter", "split_sentences"]
