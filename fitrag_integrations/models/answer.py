"""An answer as a span of a passage, by a reader such as that of Karpukhin et al. (2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.core.record import Record
from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.models.scorer.items import sigmoid
from fitrag_integrations.types import Passage


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """Answer of a reader.

    Args:
        text: `passage.text[start:end]`.
        start: Offset of the first character.
        end: Offset after the last character.
        score: Probability in [0, 1] that the passage answers the question.
    """

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """Best span of a chunk, and how strongly the reader would select the chunk."""

    select: float
    span: float
    start: int
    end: int


def found_in(chunk: EncodedPair, select: float, span: float, first: int, last: int) -> Found:
    """Return the place of a chunk's tokens, its best span's first and last."""
    start, end = int(chunk.tokens[3, first]), int(chunk.tokens[4, min(last, len(chunk) - 1)])
    if start < 0 or end < 0:  # the tokenizer knows no character of this text
        return Found(select, -math.inf, 0, 0)
    return Found(select, span, start, end)


def answer_of(passage: Passage, chunks: Sequence[Found]) -> Answer:
    """Return the best span of the chunk that the reader selects."""
    best = max(chunks, key=lambda found: found.select)
    start, end = best.start, best.end
    if not end:  # the first word
        start = len(passage.text) - len(passage.text.lstrip())
        end = start + len(passage.text.split(maxsplit=1)[0])
    return Answer(passage.text[start:end], start, end, sigmoid(best.select))
