"""What an evaluator's head is told about a pair beside the encoder's vector.

All of it is read off the token ids: the five lexical numbers of `lexical`, and four about the
title, because retrieval brings passages about a namesake or a neighbour of what was asked about,
and a small encoder is slow to tell one rare name from another. (CRAG labels its own evaluator by
the title; section 4.2 and appendix B.3.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.pairs import (
    Batch,
    EncodedPair,
    PairTokenizer,
    Tokens,
    moved_left,
)
from fitrag_integrations.models.evidence import lexical
from fitrag_integrations.models.evidence.lexical import Rarity

if TYPE_CHECKING:
    from torch import Tensor

COUNT = lexical.COUNT + 4
BLOCK = 128  # pairs measured at once


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

    def numbers(self, pairs: Sequence[EncodedPair]) -> NDArray[np.float32]:
        """Return all clues. Shape: (pairs, 9)."""
        blocks = [
            self._features(Batch.of(pairs[i : i + BLOCK])) for i in range(0, len(pairs), BLOCK)
        ]
        return np.concatenate([np.zeros((0, COUNT)), *blocks]).astype(np.float32)

    def features(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Return what `numbers` gives, for torch."""
        import torch  # which those who need the numbers alone can do without

        return torch.from_numpy(self.numbers(pairs))

    def _features(self, batch: Batch) -> NDArray[np.float64]:
        words = lexical.lexical_features(batch, self.rarity)
        return np.concatenate([words, self._titles(batch)], axis=1)

    def _titles(self, batch: Batch) -> NDArray[np.float64]:
        """Check whether there is a title, whether the question holds it word for word, the share of
        it that stands in the question and the share of the question it covers, weighed by rarity.
        """
        weights = np.asarray(self.rarity, dtype=np.float64)
        title, question = self._names(batch), batch.side(1, fill=-2)
        own = np.where(lexical.distinct(title), weights[title], 0.0)
        asked = np.where(lexical.distinct(question), weights[question], 0.0).sum(1)
        shared = (own * (title[:, :, None] == question[:, None, :]).any(2)).sum(1)
        there = title[:, 0] >= 0
        parts = [
            np.ones(len(title)),
            _hold(question, title),
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
        named: Tokens = np.where(np.arange(title.shape[1]) < sizes[:, None], title, -1)
        return named


def _hold(questions: Tokens, titles: Tokens) -> NDArray[np.bool_]:
    """Return which questions hold their title, token by token and in its order."""
    width = titles.shape[1]
    padded = np.pad(questions, ((0, 0), (0, width)), constant_values=-2)
    stretches = sliding_window_view(padded, width, axis=1)
    same = (stretches == titles[:, None, :]) | (titles < 0)[:, None, :]
    found: NDArray[np.bool_] = same.all(2).any(1)
    return found
