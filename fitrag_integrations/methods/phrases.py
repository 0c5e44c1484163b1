"""Find the phrases of a question that say most, by its own writing and without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

_STOP_WORDS = """
a about after all also am an and any anybody anyone anything are as at be because been before
being between both but by can come comes could did do does doing done during each either else
ever every for from get gets give given go goes going got had has have having he her here him
his how i if in into is it its just know kind let like many may me might mine more most much
must my name named no nor not of off on one or other our out over please s say shall she should
show since so some someone something sort tell than that the their them then there these they
thing this those through to too type under until up upon us use used very was we were what
whatever when where whether which while who whom whose why will with within without would you
your
"""
_STOP = frozenset(_STOP_WORDS.split())
_JOIN_WORDS = "al and da de del della den der des di du el for la le of the van von y"
_JOINS = frozenset(_JOIN_WORDS.split())
_QUOTED = re.compile(r"\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|«([^»\n]{2,80})»")
_WORD = re.compile(r"[^\W_]+(?:[-.,/&+'’](?!s\b)[^\W_]+)*[+#]*")
_LONGEST = 8  # words in a phrase

Span: TypeAlias = tuple[int, int]
Ranked: TypeAlias = tuple[int, int, Span]  # rank, less the length, place


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int
    kind: str  # "name", "number", "join", "stop" or "plain"


def key_phrases(text: str, most: int) -> list[str]:
    """Give at most ``most`` phrases of a text, in its order, each a stretch of it.

    Quoted phrases go before names and numbers, and these before other words that are no stop
    words; of equals the longer, then the earlier. A text with letters of a script other than
    Latin gives none.
    """
    if any(letter.isalpha() and not _is_latin(letter) for letter in text):
        return []
    first: dict[str, Ranked] = {}
    for candidate in _candidates(text):
        start, end = candidate[2]
        first.setdefault(text[start:end].casefold(), candidate)
    places = sorted(place for _, _, place in sorted(first.values())[:most])
    return [text[start:end] for start, end in places]


def _is_latin(letter: str) -> bool:
    return letter <= "\u024f" or "\u1e00" <= letter <= "\u1eff" or letter in "ʻʼʹ"


def _candidates(text: str) -> Iterator[Ranked]:
    quoted = [found.span(found.lastindex or 0) for found in _QUOTED.finditer(text)]
    for start, end in quoted:
        yield 0, start - end, (start, end)
    for run in _runs(_words(text), text):
        start, end = run[0].start, run[-1].end
        if not any(first < end and start < last for first, last in quoted):
            named = any(word.kind in ("name", "number") for word in run)
            yield 1 if named else 2, start - end, (start, end)


def _words(text: str) -> list[_Word]:
    found = list(_WORD.finditer(text))
    capital = [match[0][0].isupper() for match in found]
    if all(capital):  # then capitals tell nothing
        capital = [False] * len(found)
    elif capital[0] and not any(capital[1:2]):  # the first word has one anyway
        capital[0] = False
    return [
        _Word(match[0], *match.span(), _kind(match[0].casefold(), upper, at == 0))
        for at, (match, upper) in enumerate(zip(found, capital, strict=True))
    ]


def _kind(word: str, upper: bool, first: bool) -> str:
    if any(sign.isdigit() for sign in word):
        return "number"
    if upper and not (first and word in _STOP):
        return "name"
    if word in _JOINS:
        return "join"
    return "stop" if word in _STOP else "plain"


def _runs(words: list[_Word], text: str) -> Iterator[list[_Word]]:
    """Give runs of words that stand together and are all names, or all none, numbers aside.

    A small word between two names, as in "Joan of Arc", belongs to them.
    """
    run: list[_Word] = []
    joins: list[_Word] = []
    for word in words:
        if word.kind == "join":
            joins.append(word)
        elif run and _continues(run, joins, word, text):
            run, joins = [*run, *joins, word], []
        else:
            if run:
                yield run
            run, joins = [word] if word.kind != "stop" else [], []
    if run:
        yield run


def _continues(run: list[_Word], joins: list[_Word], word: _Word, text: str) -> bool:
    """Tell whether a word goes on with a run, over the small words between them."""
    if len(run) + len(joins) >= _LONGEST or word.kind == "stop":
        return False
    kinds = {each.kind for each in [*run, word]} - {"number", "join"}
    if len(kinds) > 1 or (joins and {run[-1].kind, word.kind} != {"name"}):
        return False
    return all(_together(left, right, text) for left, right in pairwise([run[-1], *joins, word]))


def _together(left: _Word, right: _Word, text: str) -> bool:
    """Tell whether nothing but blanks parts two words, or the dot of an initial."""
    between = text[left.end : right.start].strip()
    return not between or (between == "." and len(left.text) < 3 and left.kind == "name")
