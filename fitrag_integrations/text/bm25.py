"""Scores by shared words: Okapi BM25 (Robertson and Zaragoza, 2009)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

K1, B = 1.2, 0.75
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"  # Thai to Chinese
_WORD = re.compile(rf"{_UNSPACED}|(?:(?!{_UNSPACED})\w)+")


class BM25:
    """BM25 scores of texts; rare words count more.

    Args:
        texts: Texts from which rarity and the mean length are computed.

    Example:
        >>> score = BM25(["logger M-77 is in lot 4", "logger M-78 is in lot 5"])
        >>> score("where is M-78", "logger M-78 is in lot 5") > 0
        True
    """

    def __init__(self, texts: Iterable[str]) -> None:
        cut = [words(text) for text in texts]
        self._holding = Counter(word for each in cut for word in set(each))
        self._count, self._mean = len(cut), sum(map(len, cut)) / max(1, len(cut))

    def __call__(self, query: str, text: str) -> float:
        """Return the score of a text for a query, 0 or more."""
        own = words(text)
        counts, found = Counter(own), 0.0
        for word in counts.keys() & set(words(query)):
            held = self._holding[word]
            rare = math.log(1 + (self._count - held + 0.5) / (held + 0.5))
            length = K1 * (1 - B + B * len(own) / max(1e-9, self._mean))
            found += rare * counts[word] * (K1 + 1) / (counts[word] + length)
        return found


def words(text: str) -> list[str]:
    """Split into lower-case words; scripts without spaces are split into characters."""
    return _WORD.findall(text.lower())
