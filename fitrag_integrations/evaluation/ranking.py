"""Evaluate a scorer's order of one question's passages (FIT-RAG, section 5.3.1).

Four orders of the same passages: the retriever's, by `has_answer`, by `llm_prefer`, and by their
sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.types import BiLabelScore

Values: TypeAlias = NDArray[Any]
RETRIEVER, HAS_ANSWER, LLM_PREFER, SUM = "retriever", "has_answer", "llm_prefer", "sum"
ORDERS = (RETRIEVER, HAS_ANSWER, LLM_PREFER, SUM)
NDCG_AT = 10


@dataclass(frozen=True, slots=True)
class Candidates:
    """Passages of a question in the retriever's order: labels, scores, and answers.

    Args:
        has_answer: Label of each passage, 0 or 1.
        scores: Scores of the passages.
        llm_prefer: Label of each passage, 0 or 1; None if it is unknown.
        right: Whether the answer read from each passage is right; None if that is unknown.
        trust: Confidence of the reader in the answer of each passage.
        set: Name of the questions' data set.
    """

    has_answer: tuple[int, ...]
    scores: tuple[BiLabelScore, ...]
    llm_prefer: tuple[int | None, ...] | None = None
    right: tuple[bool | None, ...] | None = None
    trust: tuple[float, ...] | None = None
    set: str = ""

    def __post_init__(self) -> None:
        count = len(self.has_answer)
        columns = {"scores": self.scores, "llm_prefer": self.llm_prefer}
        for name, values in {**columns, "right": self.right, "trust": self.trust}.items():
            own = count if values is None else len(values)
            refuse_if(
                own != count,
                f"Candidates.{name}: there are {own} for {count} labels, one each is needed",
            )
        refuse_if(not count, "Candidates.has_answer", (), "at least one label")

    def order(self, by: str) -> list[int]:
        """Return the indices of the passages, best first; ties keep the retriever's order."""
        values = self.values(by)
        return sorted(range(len(values)), key=lambda place: -values[place])

    def values(self, by: str) -> list[float]:
        """Return the values that an order sorts by, descending."""
        if by == RETRIEVER:
            return [-float(place) for place in range(len(self.scores))]
        if by == SUM:
            return [score.combine() for score in self.scores]
        if by == HAS_ANSWER:
            return [score.has_answer for score in self.scores]
        found = [score.llm_prefer for score in self.scores if score.llm_prefer is not None]
        refuse_if(len(found) < len(self.scores), by, None, "a scorer that gives this label")
        return found

    def known(self, by: str) -> Sequence[int | None]:
        """Return the labels that the scorer predicts, or an empty list."""
        return self.has_answer if by == HAS_ANSWER else self.llm_prefer or ()

    def labels(self, by: str) -> list[int]:
        """Return the labels of `has_answer` in an order."""
        return [self.has_answer[place] for place in self.order(by)]

    def answered(self, by: str, k: int) -> bool | None:
        """Return whether the first passages of an order lead to a right answer.

        The reader's answer is the one with the highest `trust`.

        Args:
            by: Order of the passages, as in `order`.
            k: Number of passages.

        Returns:
            None if it is unknown whether that answer is right, or which of several it is.
        """
        if self.right is None or (k > 1 and self.trust is None):
            return None
        first = self.order(by)[:k]
        trust = self.trust
        return self.right[first[0] if trust is None else max(first, key=lambda place: trust[place])]


def recall_at(labels: Sequence[int], k: int) -> float:
    """Compute R@k, also called hit@k: 1.0 if one of the first passages has an answer, else 0.0.

    Args:
        labels: Labels of the passages, best first, 0 or 1.
        k: Number of passages, at least 1.
    """
    return float(any(labels[: check_whole("k", k, low=1)]))


def share_at(labels: Sequence[int], k: int) -> float:
    """Compute the fraction of the first passages that have an answer, in [0, 1].

    This is FIT-RAG's R@k (section 5.1.3); `recall_at` is DPR's.

    Args:
        labels: Labels of the passages, best first, 0 or 1.
        k: Number of passages, at least 1.
    """
    first = labels[: check_whole("k", k, low=1)]
    return sum(map(bool, first)) / len(first) if first else 0.0


def reciprocal_rank(labels: Sequence[int]) -> float:
    """Compute one over the rank of the first passage with an answer; 0.0 if there is none."""
    return next((1 / place for place, label in enumerate(labels, start=1) if label), 0.0)


def ndcg(labels: Sequence[int], k: int = NDCG_AT) -> float:
    """Compute nDCG for labels of 0 and 1; the ideal order has all ones first.

    Args:
        labels: Labels of the passages, best first, 0 or 1.
        k: Number of passages.

    Returns:
        nDCG, in [0, 1]; 0.0 if no label is 1.
    """
    count = sum(map(bool, labels))
    ideal = sum(map(_gain, range(min(k, count))))
    return sum(_gain(i) for i, label in enumerate(labels[:k]) if label) / ideal if count else 0.0


def _gain(place: int) -> float:
    return 1 / math.log2(place + 2)


def auc(scores: Sequence[float] | Values, labels: Sequence[float] | Values) -> float | None:
    """Compute the area under the ROC curve; ties count half.

    Args:
        scores: Scores.
        labels: Labels, 0 or 1.

    Returns:
        The area in [0, 1]; None if all labels are the same.
    """
    _, level = np.unique(np.asarray(scores, float), return_inverse=True)
    label = np.asarray(labels, float)
    positives, negatives = np.bincount(level, label), np.bincount(level, 1 - label)
    pairs = positives.sum() * negatives.sum()
    below = np.cumsum(negatives) - negatives / 2
    return float((positives * below).sum() / pairs) if pairs else None
