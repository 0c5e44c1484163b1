"""Spans of passages to be judged: how they are given, checked, and found among the tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TypeAlias

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoder.checked import checked_pairs
from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.types import Passage

Range = tuple[int, int]
Item: TypeAlias = tuple[str, Passage, Sequence[Range]]  # spans are [start, end) in the text


def token_ranges(chunk: EncodedPair, spans: Sequence[Range]) -> list[Range]:
    """Give the tokens [first, end) that touch each span of characters; empty where none does."""
    places = [(i, place) for i, place in enumerate(chunk.offsets) if place is not None]
    starts, ends = [start for _, (start, _) in places], [end for _, (_, end) in places]
    found = []
    for start, end in spans:
        low, high = bisect_right(ends, start), bisect_left(starts, end)
        found.append((places[low][0], places[high - 1][0] + 1) if low < high else (0, 0))
    return found


def checked_items(items: Sequence[Item]) -> list[Item]:
    """Check that each item is a question, a passage with text, and spans inside it."""
    for i, item in enumerate(items):
        if not (isinstance(item, tuple) and len(item) == 3):
            allowed = "a (question, Passage, spans) tuple"
            raise InputError.of(f"items[{i}]", given=item, allowed=allowed)
    pairs = checked_pairs([(question, passage) for question, passage, _ in items])
    return [
        (question, passage, _checked_spans(f"items[{i}].spans", spans, len(passage.text)))
        for i, ((question, passage), (_, _, spans)) in enumerate(zip(pairs, items, strict=True))
    ]


def _checked_spans(name: str, spans: Sequence[Range], length: int) -> list[Range]:
    checked = []
    for j, span in enumerate(spans):
        if not (isinstance(span, tuple) and len(span) == 2):
            raise InputError.of(f"{name}[{j}]", given=span, allowed="a (start, end) tuple")
        end = check_whole(f"{name}[{j}].end", span[1], low=1, high=length)
        checked.append((check_whole(f"{name}[{j}].start", span[0], low=0, high=end - 1), end))
    return checked
