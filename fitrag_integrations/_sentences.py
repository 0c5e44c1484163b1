"""Split a text into sentences by offsets, over syntok.

syntok decides where a sentence of prose begins; this file hands it one block of lines at a time
and cuts what would be too long. Every span is non-empty, inside the text, after the one before,
and free of blanks at its ends; together they cover every character that is not blank.

Left out: languages that write neither blanks nor the sentence ends listed below, such as Thai;
their texts are cut by length alone.

Below ``types``, because methods cut passages and retrieval cuts files with it.
``fitrag_integrations.methods.sentences`` is where users find it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from fitrag_integrations._checks import check_text

MAX_WORDS = 80
"""A longer sentence (a table, a text without stops) is cut into pieces of so many words."""
MAX_CHARACTERS = 800
"""No piece is longer; a word beyond it (a long URL, a text without blanks) is cut inside."""
WRAPPED = 50
"""A line of at least so many characters counts as wrapped prose: it runs on into the next."""

# A list item, a heading or a table row.
_ITEM = re.compile(r"\s*(?:[-*+•‣◦–—]\s|#{1,6}\s|\||\(?\d{1,3}[.)]\s|\(?[a-zA-Z]\)\s)")
# Ends that syntok either does not know or looks for only before a blank.
_FULL_STOP = re.compile(r"[。！？｡।॥۔؟]+[」』”’）》\"')\]]*")
_WORD = re.compile(r"\S+")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Give [start, end) of each sentence, in order.

    A blank line, a list item, a heading and a table row end a sentence. So does any other line
    break, unless the line is long enough to be wrapped prose or the next one begins in lower
    case.
    """
    check_text("text", text)
    spans: list[tuple[int, int]] = []
    for start, end in _blocks(text):
        for first, last in _sentences(text[start:end]):
            spans.extend(_pieces(text, start + first, start + last))
    return spans


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Join lines that run on into each other."""
    begin = end = 0
    previous = ""
    for line in text.splitlines(keepends=True):
        if end > begin and _breaks(previous, line):
            yield begin, end
            begin = end
        end += len(line)
        previous = line
    if end > begin:
        yield begin, end


def _breaks(line: str, following: str) -> bool:
    if not line.strip() or not following.strip():
        return True
    if _ITEM.match(following) or line.lstrip().startswith(("#", "|")):
        return True
    return len(line.strip()) < WRAPPED and not following.lstrip()[0].islower()


def _sentences(block: str) -> Iterator[tuple[int, int]]:
    """Cut a block where syntok, or a full stop it does not know, begins a sentence."""
    if not block.strip():
        return
    starts = {0, *_syntok_starts(block), *(stop.end() for stop in _FULL_STOP.finditer(block))}
    ordered = sorted(starts) + [len(block)]
    for start, end in pairwise(ordered):
        piece = block[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _syntok_starts(block: str) -> Iterator[int]:
    from syntok import segmenter  # type: ignore[import-untyped]  # here: it loads in its own time
    from syntok.tokenizer import Tokenizer  # type: ignore[import-untyped]

    # Contractions stay as written: replaced ones would shift what follows.
    tokens = Tokenizer(replace_not_contraction=False).tokenize(block)
    first = True
    for sentence in segmenter.segment(tokens):
        if not first:  # what comes before the first token belongs to the first sentence
            yield sentence[0].offset
        first = False


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a span into pieces of at most MAX_WORDS words and MAX_CHARACTERS characters."""
    begin, last, words = start, start, 0
    for word in _words(text, start, end):
        if words and (words == MAX_WORDS or word[1] - begin > MAX_CHARACTERS):
            yield begin, last
            begin, words = word[0], 0
        last, words = word[1], words + 1
    if words:
        yield begin, last


def _words(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for word in _WORD.finditer(text, start, end):
        at = word.start()
        while word.end() - at > MAX_CHARACTERS:
            cut = _between_signs(text, at, at + MAX_CHARACTERS)
            yield at, cut
            at = cut
        yield at, word.end()


def _between_signs(text: str, start: int, cut: int) -> int:
    """Move a cut back so that no emoji or accented letter is torn, where one is near."""
    import regex  # type: ignore[import-untyped]  # comes with syntok

    last = cut
    for sign in regex.finditer(r"\X", text, pos=max(start, cut - 32), endpos=cut + 32):
        if sign.start() > start and sign.start() <= cut:
            last = sign.start()
    return last
