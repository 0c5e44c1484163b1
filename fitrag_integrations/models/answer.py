"""An answer as a span of a passage, by a reader such as that of Karpukhin et al. (2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.core.record import Record
from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.types import Passage


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """Answer of a reader: `passage.text[start:end]`.

    `score` in [0, 1] is the reader's probability that the passage answers the question.
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
    """Read the chunk the reader would select, and give its best span."""
    best = max(chunks, key=lambda found: found.select)
    start, end = (best.start, best.end) if best.end else _first_word(passage.text)
    score = 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, best.select))))
    return Answer(passage.text[start:end], start, end, score)


def _first_word(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip())
    return start, start + len(text[start:].split(maxsplit=1)[0])
