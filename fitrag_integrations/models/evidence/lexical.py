"""Lexical evidence for a pair: how much of the question's rare vocabulary the passage repeats.

An encoder of 22M weights reads meaning well and names badly; five numbers over token ids make up
for much of that at no cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from fitrag_integrations.models.encoder.pairs import EncodedPair

COUNT = 5
WINDOW = 41
K1, B, AVERAGE_LENGTH = 0.9, 0.4, 150.0  # BM25's; the length in tokens of a usual passage


def lexical_features(pairs: Iterable[EncodedPair], rarity: Sequence[float]) -> list[list[float]]:
    """Measure each pair's overlap. `rarity[id]` is a token's inverse document frequency.

    Shape: (pairs, 5), all in [0, 1] but the last: the share of the question's tokens, weighed by
    rarity, that stand in the passage; the share unweighed; the weighed share inside the best
    stretch of 41 tokens; BM25 over the most it could be; the log of the passage's length over 5.
    """
    return [_features(pair, rarity) for pair in pairs]


def inverse_document_frequency(documents: Iterable[set[int]], vocabulary: int) -> list[float]:
    """Weigh each token id as BM25 does: log(1 + (n - df + 0.5) / (df + 0.5))."""
    counts: Counter[int] = Counter()
    n = 0
    for document in documents:
        counts.update(document)
        n += 1
    return [math.log1p((n - counts[i] + 0.5) / (counts[i] + 0.5)) for i in range(vocabulary)]


def _features(pair: EncodedPair, rarity: Sequence[float]) -> list[float]:
    question = {i for i, s in zip(pair.ids, pair.segments, strict=True) if s == 1}
    passage = [i for i, s in zip(pair.ids, pair.segments, strict=True) if s == 2]
    weight = sum(rarity[i] for i in question) or 1.0
    found = question.intersection(passage)
    return [
        sum(rarity[i] for i in found) / weight,
        len(found) / max(1, len(question)),
        _best_stretch(passage, found, rarity) / weight,
        _bm25(passage, found, rarity) / weight,
        math.log1p(len(passage)) / 5,
    ]


def _bm25(passage: Sequence[int], found: set[int], rarity: Sequence[float]) -> float:
    """Sum the saturated counts of the tokens found, each below 1, weighed by rarity."""
    counts = Counter(token for token in passage if token in found)
    damp = K1 * (1 - B + B * len(passage) / AVERAGE_LENGTH)
    return sum(rarity[token] * n / (n + damp) for token, n in counts.items())


def _best_stretch(passage: Sequence[int], found: set[int], rarity: Sequence[float]) -> float:
    """Slide a window over the passage; give the largest weight of distinct tokens found in it."""
    inside: Counter[int] = Counter()
    weight = best = 0.0
    for at, token in enumerate(passage):
        gone = passage[at - WINDOW] if at >= WINDOW else -1
        if inside[gone] > 0:
            inside[gone] -= 1
            weight -= rarity[gone] if inside[gone] == 0 else 0.0
        if token in found:
            inside[token] += 1
            weight += rarity[token] if inside[token] == 1 else 0.0
            best = max(best, weight)
    return best
