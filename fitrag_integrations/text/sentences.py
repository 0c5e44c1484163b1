"""Split a text into sentences by offsets, over syntok.

``blocks`` parts the lines, ``boundaries`` finds where a sentence of prose begins, and this file
cuts what would be too long. Every span is non-empty, inside the text, after the one before, and
free of blanks at its ends; together they cover every character that is not blank.

Thai and its neighbors write a blank and no sign at the end of a sentence: their texts are cut at
blanks, into pieces of up to 120 signs.

Methods cut passages with it, and retrieval cuts files; users find it in ``methods``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

from fitrag_integrations.core.checks import check_callable, check_text
from fitrag_integrations.text.blocks import BLANK, CODE, HEADER, LINE, ROW, blocks_of
from fitrag_integrations.text.boundaries import starts_of
from fitrag_integrations.text.records import records_of
from fitrag_integrations.text.spans import Span, trimmed

Splitter: TypeAlias = Callable[[str], list[Span]]
SentenceSplitter: TypeAlias = Annotated[Splitter, check_callable]
MAX_WORDS = 80
"""A longer sentence (a table, a text without stops) is cut into pieces of so many words."""
MAX_CHARACTERS = 800
"""No piece is longer; a word beyond it (a long URL, a text without blanks) is cut inside."""
MAX_CODE = 2000
"""A block of code of at most so many characters stays whole; a longer one is cut at blank lines."""
MAX_ROW = 240
"""A table row of at most so many characters stays whole; a longer one is cut into sentences."""
TEXTS, LONGEST = 2048, 4096
"""Of so many texts met last, none of more characters, the spans are kept: passages come again."""

LONG_WORD = 60
"""A clause without blanks and marks is cut into pieces of so many characters."""

_WORD = re.compile(r"\S+")
# Marks at which a clause ends, but none inside a number or an address; and closing tags.
_MARK = (
    r"(?V1)(?:[;()–—\n]|[,:](?![\d/])|[[\p{Po}\p{Ps}\p{Pe}]--[\x00-\xff’…]])+"
    r"|(?:</[^<>]{1,80}>|/>)+"
)
# A word of a script that writes blanks, or else one sign.
_LAST = (
    r"(?V1)(?:[\w--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]"
    r"|(?<=\w)['’.,:/-](?=\w)){1,30}|\X"
)
_DENSE = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese, Khmer
_BLANK_LINES = re.compile(r"\n(?=[^\S\n]*\n)")
# Where a piece is best cut: between lines, after a stop, or else after a pause.
_GAPS = (
    re.compile(r"\s*\n"),
    re.compile(rf"(?<={_DENSE.pattern})\s(?={_DENSE.pattern})"),
    re.compile(r"(?<=[.!?;:…])\s"),
    re.compile(r"(?<=[,،、，])\s"),
)


def split_sentences(text: str) -> list[Span]:
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
def _split(text: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    blocks = ((block.start, block.end, block.kind, block.start) for block in blocks_of(text))
    for start, end, kind, body in [part[:4] for part in records_of(text)] or blocks:
        if kind == CODE:
            spans.extend(_code(text, start, end))
        elif kind == LINE or (kind in (HEADER, ROW) and end - start <= MAX_ROW):
            spans.extend(_pieces(text, start, end))
        elif kind != BLANK:
            begun = (body + at for at in starts_of(text[body:end])[1:])
            for first, last in pairwise([start, *begun, end]):
                spans.extend(_pieces(text, first, last))
    return tuple(spans)


def _code(text: str, start: int, end: int) -> Iterator[Span]:
    """Cut code at blank lines into parts of at most MAX_CODE characters; a longer part as prose."""
    gaps = [gap.start() for gap in _BLANK_LINES.finditer(text, start, end)]
    at = last = start
    for cut in [*gaps, end]:
        if cut - at > MAX_CODE and last > at:
            yield from _pieces(text, at, last, code=True)
            at = last
        last = cut
    yield from _pieces(text, at, end, code=True)


def _pieces(text: str, start: int, end: int, *, code: bool = False) -> Iterator[Span]:
    """Cut a span into pieces of at most MAX_WORDS words and MAX_CHARACTERS characters; code of at
    most MAX_CODE characters stays whole.
    """
    piece = text[start:end]
    body = piece.strip()
    whole = len(piece) <= MAX_CHARACTERS and len(piece.split()) + _dense(piece) <= MAX_WORDS
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


def _cut(text: str, words: Sequence[Span], at: int) -> int:
    """Find the word after the piece that begins with word ``at``."""
    after, size = at, 0
    while after < len(words) and words[after][1] - words[at][0] <= MAX_CHARACTERS:
        size += 1 + _dense(text[slice(*words[after])])
        if size > MAX_WORDS and after > at:
            break
        after += 1
    if after == len(words):
        return after
    for gap in _GAPS:  # in the second half, so that no piece is a mere remainder
        for best in range(after, (at + after + 1) // 2, -1):
            if gap.match(text, words[best - 1][1]):
                return best
    return after


def _dense(text: str) -> int:
    """Return how many words the signs of a script without blanks and stops count for."""
    return 0 if text.isascii() else 2 * len(_DENSE.findall(text)) // 3


def _words(text: str, start: int, end: int, longest: int = 0) -> Iterator[Span]:
    """Yield the words of a span; a longer one is cut after a mark or a tag, or between signs."""
    for word in _WORD.finditer(text, start, end):
        at = word.start()
        most = longest or (2 * MAX_WORDS if _dense(word[0]) else MAX_CHARACTERS)
        while word.end() - at > most:
            marks = [mark.end() for mark in _mark().finditer(text, at + most // 2, at + most)]
            cut = marks[-1] if marks else _between_signs(text, at, at + most)
            yield at, cut
            at = cut
        yield at, word.end()


def split_clauses(text: str) -> list[Span]:
    """Return [start, end) of the clauses of ``text``: what stands between its marks.

    Marks are those of every script, and closing tags. Records are cut into their members. What has
    neither blanks nor marks is cut every ``LONG_WORD`` characters.
    """
    if members := records_of(text, longest=0):
        return [(one.start, one.end) for one in members]
    cuts = {0, len(text), *(mark.end() for mark in _mark().finditer(text))}
    ends = (end for _, end in _words(text, 0, len(text), LONG_WORD))
    cuts.update(end for end in ends if not text[end : end + 1].isspace())
    spans = (trimmed(text, start, end) for start, end in pairwise(sorted(cuts)))
    return [(start, end) for start, end in spans if start < end]


def word_ends(text: str, *, signs: bool = False) -> list[int]:
    """Return the last-resort cut positions of a text: after each word, or after each sign."""
    import regex  # type: ignore[import-untyped]  # comes with syntok

    found = regex.finditer(r"\X" if signs else _LAST, text)
    return [at.end() for at in found if not text[at.end() - 1].isspace()]


@lru_cache(maxsize=1)
def _mark() -> Any:
    import regex

    return regex.compile(_MARK)


def _between_signs(text: str, start: int, cut: int) -> int:
    """Move a cut back so that no emoji or accented letter is torn, unless it is one huge sign."""
    import regex

    signs = regex.finditer(r"\X", text[start : cut + 1])  # a slice: flags pair from its start
    ends = (sign.start() for sign in signs if 0 < sign.start() <= cut - start)
    return start + max(ends, default=cut - start)


__all__ = ["MAX_CHARACTERS", "MAX_WORDS", "SentenceSplitter", "split_sentences"]
