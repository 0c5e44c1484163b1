"""Score sentences from the forward pass that scores their passages.

FIT-RAG's token reducer (section 4.4.2) has the scorer read every window of sentences as a text of
its own, which costs more than twice what reading the passages did. Here a line over seven numbers
judges a span of a passage by what one pass over all of it gives: two labels, and for each token how
well an answer begins and ends there (Karpukhin et al., 2020, section 6.1) and how far it is worth
keeping. The bundled graph and the scorer in torch share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.items import (
    ANSWER_TOKENS,
    NOTHING,
    Correction,
    InChunk,
    Item,
    Range,
    best_logits,
)
from fitrag_integrations.models.encoder.pairs import EncodedPair, Pair
from fitrag_integrations.types import BiLabelScore

Floats: TypeAlias = NDArray[np.float32]
NUMBERS = 7


class Read(NamedTuple):
    """Logits of a chunk, the labels first, and of its tokens, (tokens, 3): start, end and keep."""

    labels: Floats
    tokens: Floats


def judge_items(
    items: Sequence[Item],
    placed: Sequence[Sequence[InChunk]],
    chunks: Sequence[EncodedPair],
    read: Sequence[Read],
    wanted: Mapping[int, list[Range]],
    line: Floats,
    whole: Callable[[Pair, Sequence[Read]], BiLabelScore],
    correction: Correction,
) -> list[tuple[BiLabelScore, list[BiLabelScore]]]:
    """Return the labels of each item's passage, and `has_answer` of its spans.

    Args:
        items: Questions, passages and spans.
        placed: Spans that each chunk of an item judges, of `placed_spans`, as `wanted`.
        chunks: Chunks of all items.
        read: Their logits.
        wanted: Tokens of the spans, by the id of their chunk.
        line: Weights of the seven numbers, and a bias. Shape: (8,).
        whole: Returns the labels of a passage from its chunks.
        correction: Correction of `has_answer`.
    """
    results = zip(chunks, read, strict=True)
    judged = []
    for own, (question, passage, spans) in zip(placed, items, strict=True):
        mine, parts = [], []
        for which, _ in own:
            chunk, one = next(results)
            numbers = sentence_numbers(one, chunk.tokens[3] >= 0, wanted[id(chunk)])
            mine.append(one)
            parts.append((which, (numbers @ line[:-1] + line[-1])[:, None]))
        logits = best_logits(len(spans), parts)[:, 0].tolist()
        labels = [correction.labels(logit) for logit in logits]
        judged.append((whole((question, passage), mine), labels))
    return judged


def sentence_numbers(read: Read, text: NDArray[np.bool_], spans: Sequence[Range]) -> Floats:
    """Measure spans of a chunk's tokens. Shape: (spans, 7).

    Mean and maximum of how far its tokens are worth keeping; a fifth of the best answer in it, and
    of that less the chunk's best; both labels of the chunk; the log of its length over 5. Only
    tokens of the text count; a span without any has finite numbers too.
    """
    start, end, keep = np.where(text, read.tokens.T, -np.inf)
    until = np.maximum.accumulate(later_ends(end), axis=1)  # the best end so far
    first, last = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    sizes = (last - first).clip(min=0)
    full, begins = sizes > 0, sizes.cumsum() - sizes
    which = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(len(which)) - begins[which] + first[which]
    room = (last[which] - places).clip(1, ANSWER_TOKENS) - 1
    numbers = np.zeros((len(sizes), NUMBERS), dtype=np.float32)
    counts, own = np.zeros(len(sizes)), np.full(len(sizes), -np.inf)
    if full.any():
        at = begins[full]
        counts[full] = np.add.reduceat(text[places], at, dtype=np.int64)
        own[full] = np.maximum.reduceat(start[places] + until[places, room], at)
        numbers[full, 0] = np.add.reduceat(np.where(text, keep, 0.0)[places], at)
        numbers[full, 1] = np.maximum.reduceat(keep[places], at)
    numbers[:, 0] /= np.maximum(counts, 1)
    numbers[counts == 0, 1] = 0.0
    with np.errstate(invalid="ignore"):  # a chunk without text
        behind = own - (start + until[:, -1]).max()
    numbers[:, 2] = np.maximum(own, NOTHING) / 5
    numbers[:, 3] = np.nan_to_num(np.maximum(behind, NOTHING), nan=0.0) / 5
    numbers[:, 4:6] = read.labels[:2]
    numbers[:, 6] = np.log1p(counts) / 5
    return numbers


def later_ends(end: Floats) -> Floats:
    """Return the scores of the ends that may follow each token. Shape: (tokens, 24)."""
    fill = (0, ANSWER_TOKENS - 1)
    return sliding_window_view(np.pad(end, fill, constant_values=-np.inf), ANSWER_TOKENS)
