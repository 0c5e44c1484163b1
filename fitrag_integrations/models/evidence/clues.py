"""What an evaluator's head is told about a pair beside the encoder's vector.

All of it is read off the token ids: the five lexical numbers of `lexical`, and four about the
title, because retrieval brings passages about a namesake or a neighbour of what was asked about,
and a small encoder is slow to tell one rare name from another. (CRAG labels its own evaluator by
the title; section 4.2 and appendix B.3.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.evidence import lexical

COUNT = lexical.COUNT + 4


@dataclass(frozen=True)
class Clues:
    """Measure pairs. `rarity[id]` is a token's inverse document frequency; `brackets` are the
    tokens at which the part of a title that tells namesakes apart begins.
    """

    rarity: Sequence[float]
    brackets: Collection[int]

    @classmethod
    def of(cls, tokenizer: PairTokenizer, rarity: Sequence[float]) -> Clues:
        """Look the brackets up in a tokenizer."""
        return cls(rarity, next(tokenizer.vocabularies(["("])))

    def features(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Give all clues. Shape: (pairs, 9)."""
        words = lexical.lexical_features(pairs, self.rarity)
        titles = [self._title(pair) for pair in pairs]
        both = [[*one, *other] for one, other in zip(words, titles, strict=True)]
        return torch.tensor(both).reshape(len(pairs), COUNT)

    def _title(self, pair: EncodedPair) -> list[float]:
        """Say whether there is a title, whether the question holds it word for word, the share of
        it that stands in the question and the share of the question it covers, weighed by rarity.
        """
        title, question = self._name(pair), [*_side(pair, 1)]
        if not title:
            return [0.0, 0.0, 0.0, 0.0]
        shared = self._weight(set(title) & set(question))
        parts = (self._weight(set(title)), self._weight(set(question)))
        return [1.0, float(_holds(question, title)), *(shared / max(part, 1e-6) for part in parts)]

    def _name(self, pair: EncodedPair) -> list[int]:
        """Take the title up to its bracket, without the full stop that ends it."""
        tokens = zip(pair.ids, pair.segments, pair.offsets, strict=True)
        title: list[int] = []
        for token, segment, place in tokens:
            if segment == 2 and place is not None:
                break
            if segment == 2:
                title.append(token)
        cut = next((i for i, token in enumerate(title) if i and token in self.brackets), -1)
        return title[:cut]

    def _weight(self, tokens: set[int]) -> float:
        return sum(self.rarity[token] for token in tokens)


def _side(pair: EncodedPair, segment: int) -> list[int]:
    return [token for token, s in zip(pair.ids, pair.segments, strict=True) if s == segment]


def _holds(tokens: Sequence[int], part: Sequence[int]) -> bool:
    width = len(part)
    return any(tokens[i : i + width] == part for i in range(len(tokens) - width + 1))
