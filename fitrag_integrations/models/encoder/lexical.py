"""Lexical features of a pair, read off its token ids.

An encoder of 22M weights reads meaning well and names badly; five numbers about how much of the
question's rare vocabulary the passage repeats make up for much of that at no cost. Four more
compare question and title: retrieval brings passages about a namesake or a neighbor of the subject.
(CRAG labels its own evaluator by the title; section 4.2 and appendix B.3.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.pairs import (
    Batch,
    EncodedPair,
    PairTokenizer,
    Rarity,
    Tokens,
    moved_left,
)

if TYPE_CHECKING:
    from torch import Tensor

LEXICAL_COUNT = 5
COUNT = LEXICAL_COUNT + 4  # with those about the title
BLOCK = 128  # pairs measured at once
WINDOW = 41
K1, B, AVERAGE_LENGTH = 0.9, 0.4, 150.0  # BM25's; the length in tokens of a usual passage


def lexical_features(batch: Batch, rarity: Rarity) -> NDArray[np.float64]:
    """Compute the overlap of each pair. `rarity[id]` is a token's inverse document frequency.

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
    rows, tokens, places = np.unravel_index(where, equal.shape)  # the last is in the passage
    counts = np.bincount(rows * once.shape[1] + tokens, minlength=once.size).reshape(once.shape)
    length = inside.sum(1)
    damp = K1 * (1 - B + B * length[:, None] / AVERAGE_LENGTH)
    total = worth.sum(1)
    total[total == 0] = 1.0
    # each is worth something from where it stands to the window's end, or to its next place
    ends, width = places + WINDOW, passage.shape[1] + WINDOW
    same = (rows[1:] == rows[:-1]) & (tokens[1:] == tokens[:-1])
    ends[:-1] = np.where(same, np.minimum(ends[:-1], places[1:]), ends[:-1])
    value = worth[rows, tokens]
    changed = np.concatenate([rows * width + places, rows * width + ends])
    change = np.bincount(changed, np.concatenate([value, -value]), len(worth) * width)
    parts = [
        (worth * (counts > 0)).sum(1) / total,
        (counts > 0).sum(1) / np.maximum(once.sum(1), 1),
        change.reshape(-1, width).cumsum(1).max(1) / total,
        (worth * counts / (counts + damp)).sum(1) / total,
        np.log1p(length) / 5,
    ]
    return np.stack(parts, axis=1)


def inverse_document_frequency(documents: Iterable[set[int]], vocabulary: int) -> list[float]:
    """Compute BM25's weight of each token id: log(1 + (n - df + 0.5) / (df + 0.5))."""
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


@dataclass(frozen=True)
class Clues:
    """Measure pairs. `rarity[id]` is a token's inverse document frequency; `brackets` are the
    tokens at which the part of a title that tells namesakes apart begins.
    """

    rarity: Rarity
    brackets: Collection[int]

    @classmethod
    def of(cls, tokenizer: PairTokenizer, rarity: Rarity) -> Clues:
        """Look the brackets up in a tokenizer."""
        return cls(rarity, next(tokenizer.vocabularies(["("])))

    def features(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Return all clues. Shape: (pairs, 9)."""
        import torch

        blocks = [np.zeros((0, COUNT))]
        for at in range(0, len(pairs), BLOCK):
            batch = Batch.of(pairs[at : at + BLOCK])
            words = lexical_features(batch, self.rarity)
            blocks.append(np.concatenate([words, self._titles(batch)], axis=1))
        return torch.from_numpy(np.concatenate(blocks).astype(np.float32))

    def _titles(self, batch: Batch) -> NDArray[np.float64]:
        """Check whether there is a title, whether the question holds it word for word, the share of
        it that stands in the question and the share of the question it covers, weighed by rarity.
        """
        weights = np.asarray(self.rarity, dtype=np.float64)
        title, question = self._names(batch), batch.side(1, fill=-2)
        if (title < 0).all():
            return np.zeros((len(title), 4))
        own = np.where(distinct(title), weights[title], 0.0)
        asked = np.where(distinct(question), weights[question], 0.0).sum(1)
        shared = (own * (title[:, :, None] == question[:, None, :]).any(2)).sum(1)
        there, width = title[:, 0] >= 0, title.shape[1]
        padded = np.pad(question, ((0, 0), (0, width)), constant_values=-2)
        stretches = sliding_window_view(padded, width, axis=1)
        parts = [
            np.ones(len(title)),
            ((stretches == title[:, None, :]) | (title < 0)[:, None, :]).all(2).any(1),
            shared / np.maximum(own.sum(1), 1e-6),
            shared / np.maximum(asked, 1e-6),
        ]
        return np.stack(parts, axis=1) * there[:, None]

    def _names(self, batch: Batch) -> Tokens:
        """Return titles up to their parenthesis, without a final full stop; padded with -1."""
        placed = batch.placed
        first = np.where(placed.any(1), placed.argmax(1), placed.shape[1])
        before = (batch.tokens[2] == 2) & (np.arange(placed.shape[1]) < first[:, None])
        title = moved_left(batch.tokens[0], before, fill=-1)
        opens = np.isin(title, list(self.brackets))
        opens[:, 0] = False
        sizes = np.where(opens.any(1), opens.argmax(1), (title >= 0).sum(1) - 1)
        return np.where(np.arange(title.shape[1]) < sizes[:, None], title, -1)
