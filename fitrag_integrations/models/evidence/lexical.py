"""Lexical evidence for a pair: how much of the question's rare vocabulary the passage repeats.

An encoder of 22M weights reads meaning well and names badly; five numbers over token ids make up
for much of that at no cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.pairs import Batch, Tokens

Rarity: TypeAlias = Sequence[float] | NDArray[np.float64]  # an array is read at no cost

COUNT = 5
WINDOW = 41
K1, B, AVERAGE_LENGTH = 0.9, 0.4, 150.0  # BM25's; the length in tokens of a usual passage


class Found(NamedTuple):
    """Which token of a pair's question occurs where in its passage, in order."""

    rows: NDArray[np.intp]
    tokens: NDArray[np.intp]
    places: NDArray[np.intp]


def lexical_features(batch: Batch, rarity: Rarity) -> NDArray[np.float64]:
    """Measure each pair's overlap. `rarity[id]` is a token's inverse document frequency.

    Shape: (pairs, 5), all in [0, 1] but the last: the share of the question's tokens, weighed by
    rarity, that stand in the passage; the share unweighed; the weighed share inside the best
    stretch of 41 tokens; BM25 over the most it could be; the log of the passage's length over 5.
    """
    weights = np.asarray(rarity, dtype=np.float64)
    question, inside = batch.side(1, fill=-1), batch.tokens[2] == 2
    once = distinct(question)
    worth = np.where(once, weights[question], 0.0)
    passage = np.where(inside, batch.tokens[0], -2)
    equal = np.where(once, question, -1)[:, :, None] == passage[:, None, :]
    where = np.flatnonzero(equal)  # over one axis numpy is ten times faster
    rows, tokens, places = np.unravel_index(where, equal.shape)
    counts = np.bincount(rows * once.shape[1] + tokens, minlength=once.size).reshape(once.shape)
    length = inside.sum(1)
    damp = K1 * (1 - B + B * length[:, None] / AVERAGE_LENGTH)
    total = worth.sum(1)
    total[total == 0] = 1.0
    stretch = _best_stretch(Found(rows, tokens, places), worth, passage.shape[1])
    parts = [
        (worth * (counts > 0)).sum(1) / total,
        (counts > 0).sum(1) / np.maximum(once.sum(1), 1),
        stretch / total,
        (worth * counts / (counts + damp)).sum(1) / total,
        np.log1p(length) / 5,
    ]
    return np.stack(parts, axis=1)


def inverse_document_frequency(documents: Iterable[set[int]], vocabulary: int) -> list[float]:
    """Weigh each token id as BM25 does: log(1 + (n - df + 0.5) / (df + 0.5))."""
    counts: Counter[int] = Counter()
    n = 0
    for document in documents:
        counts.update(document)
        n += 1
    return [math.log1p((n - counts[i] + 0.5) / (counts[i] + 0.5)) for i in range(vocabulary)]


def distinct(ids: Tokens) -> NDArray[np.bool_]:
    """Mark the first of equal ids in each row; a negative one is none."""
    before = np.tri(ids.shape[1], k=-1, dtype=bool)
    found: NDArray[np.bool_] = (ids >= 0) & ~((ids[:, :, None] == ids[:, None, :]) & before).any(2)
    return found


def _best_stretch(found: Found, worth: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the largest worth of distinct tokens found in a window over the passage: (pairs,).

    Each is worth something from where it stands to the window's end, or to its next place.
    """
    rows, tokens, places = found
    ends, width = places + WINDOW, size + WINDOW
    same = (rows[1:] == rows[:-1]) & (tokens[1:] == tokens[:-1])
    ends[:-1] = np.where(same, np.minimum(ends[:-1], places[1:]), ends[:-1])
    where, value = rows * width, worth[rows, tokens]
    changed = np.concatenate([where + places, where + ends])
    change = np.bincount(changed, np.concatenate([value, -value]), len(worth) * width)
    best: NDArray[np.float64] = change.reshape(-1, width).cumsum(1).max(1)
    return best
