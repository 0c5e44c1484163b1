"""Scores of logits; spans of passages to be judged: their checks, and their tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoder.pairs import EncodedPair, checked_pairs
from fitrag_integrations.types import BiLabelScore, Passage

Range = tuple[int, int]
Places: TypeAlias = NDArray[np.int64]
InChunk: TypeAlias = tuple[Places, list[Range]]  # which spans, and the tokens of each
Item: TypeAlias = tuple[str, Passage, Sequence[Range]]  # spans are [start, end) in the text


def of_logits(has_answer: float, llm_prefer: float | None = None) -> BiLabelScore:
    """Return the score of two logits, or of one."""
    return BiLabelScore(
        sigmoid(has_answer),
        None if llm_prefer is None else sigmoid(llm_prefer),
        has_answer,
        llm_prefer,
    )


def sigmoid(logit: float) -> float:
    """Return the probability of a logit."""
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


def token_ranges(chunk: EncodedPair, spans: Sequence[Range] | Places) -> list[Range]:
    """Return the tokens [first, end) that touch each span of characters; empty where none does."""
    places = np.flatnonzero(chunk.tokens[3] >= 0)
    if not len(places):
        return [(0, 0)] * len(spans)
    starts, ends = chunk.tokens[3:, places]
    wanted = np.array(spans, dtype=np.int64).reshape(-1, 2)
    low = np.searchsorted(ends, wanted[:, 0], "right")
    high = np.searchsorted(starts, wanted[:, 1], "left")
    bounds = places[np.minimum(low, len(places) - 1)], places[high - 1] + 1
    found = np.where(low < high, bounds, 0)
    return [(first, end) for first, end in found.T.tolist()]


def chunk_spans(chunks: Sequence[EncodedPair], spans: Sequence[Range]) -> list[InChunk]:
    """Find for each chunk of a passage the spans that are judged in it, with their tokens.

    A span is judged in the chunks that hold the most of its tokens, and one without tokens in the
    first. So a passage costs as much as its chunks, however many spans it has.
    """
    bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
    most = np.zeros(len(bounds), dtype=np.int64)
    touched = []
    for chunk in chunks:
        placed = chunk.tokens[3:, chunk.tokens[3] >= 0]
        begin, end = (placed[0].min(), placed[1].max()) if placed.size else (0, 0)
        which = np.flatnonzero((bounds[:, 0] < end) & (bounds[:, 1] > begin))
        ranges = np.array(token_ranges(chunk, bounds[which])).reshape(-1, 2)
        counts = ranges[:, 1] - ranges[:, 0]
        most[which] = np.maximum(most[which], counts)
        touched.append((which, ranges, counts))
    found = []
    for n, (which, ranges, counts) in enumerate(touched):
        kept = (counts == most[which]) & (counts > 0)
        nowhere = np.flatnonzero(most == 0) if n == 0 else which[:0]
        own = np.concatenate([ranges[kept], np.zeros((len(nowhere), 2), dtype=np.int64)])
        found.append((np.concatenate([which[kept], nowhere]), [(a, b) for a, b in own.tolist()]))
    return found


def best_logits(count: int, parts: Sequence[tuple[Places, NDArray[Any]]]) -> NDArray[Any]:
    """Return of each of `count` spans the largest logits any chunk gave it. Shape: (count, 2)."""
    best = np.full((count, 2), -np.inf, dtype=parts[0][1].dtype)
    for which, logits in parts:
        best[which] = np.maximum(best[which], logits)
    return best


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
