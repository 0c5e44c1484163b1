"""The two labels of a question and a passage (FIT-RAG, section 4.2)."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from fitrag_integrations.core.checks import check_many, check_number
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError

MOST = sys.float_info.max
Label: TypeAlias = Literal["has_answer", "llm_prefer"]


@dataclass(frozen=True, slots=True)
class BiLabelScore(Record):
    """Two labels of one (question, passage) pair (FIT-RAG, section 4.2).

    Args:
        has_answer: Probability in [0, 1] that the text holds the answer.
        llm_prefer: Probability in [0, 1] that the language model answers correctly from the text;
            None if the scorer has one output. The bundled scorer returns both labels for a passage
            and only `has_answer` for a sentence.
        has_answer_logit: Logit of `has_answer`, if the scorer has it; FIT-RAG's recognizer applies
            its threshold to a logit.
        llm_prefer_logit: Logit of `llm_prefer`, if the scorer has it.

    Raises:
        InputError: If a number is out of range or not finite.

    Example:
        >>> BiLabelScore(0.8, 0.6).combine(0.5)
        1.4
        >>> BiLabelScore(0.8).combine(0.5)  # at every weight
        1.6
    """

    has_answer: float
    llm_prefer: float | None = None
    has_answer_logit: float | None = None
    llm_prefer_logit: float | None = None

    def __post_init__(self) -> None:
        if _are_sound(
            self.has_answer, self.llm_prefer, self.has_answer_logit, self.llm_prefer_logit
        ):
            return  # as nearly all are
        for name in ("has_answer", "llm_prefer", "has_answer_logit", "llm_prefer_logit"):
            value = getattr(self, name)
            if value is not None or name == "has_answer":
                bounds = {} if name.endswith("logit") else {"low": 0.0, "high": 1.0}
                number = check_number(f"BiLabelScore.{name}", value, **bounds)
                object.__setattr__(self, name, number)

    def combine(self, weight: float = 0.5, *, logits: bool = False) -> float:
        """Combine the two labels into one score in [0, 2]; with ``logits`` it is unbounded.

        ``2 * (weight * llm_prefer + (1 - weight) * has_answer)``; without ``llm_prefer`` it is ``2
        * has_answer`` at every weight. The paper does not say what its scores are; its delta of 4.5
        can only be a logit.

        Args:
            weight: In [0, 1]: 0.5 is the paper's plain sum (section 4.4.1), 0 uses ``has_answer``
                alone, 1 ``llm_prefer`` alone.
            logits: Add logits instead of probabilities.

        Raises:
            InputError: If ``logits`` is set and the scorer returned none.
        """
        if not (type(weight) is float and 0.0 <= weight <= 1.0):
            weight = check_number("weight", weight, low=0.0, high=1.0)
        first, second = self.has_answer, self.llm_prefer
        if logits:
            if self.has_answer_logit is None or (second is not None) > (
                self.llm_prefer_logit is not None
            ):
                raise InputError.of("score", given=self, allowed="a scorer that gives logits")
            first, second = self.has_answer_logit, self.llm_prefer_logit
        return 2.0 * (first if second is None else weight * second + (1.0 - weight) * first)

    def relevance(self, weight: float = 0.5) -> float:
        """Return half of `combine`, in [0, 1]; ``weight`` is in [0, 1], as there."""
        return self.combine(weight) / 2

    def mixed(self, other: BiLabelScore, more: float = 0.0) -> BiLabelScore:
        """Return the score at the mean of two scores' logits, for each label that both have.

        Args:
            other: The other score; a missing logit is computed from the probability.
            more: Added to each mean.
        """
        pairs = zip(self._both_logits(), other._both_logits(), strict=True)
        logits = [None if a is None or b is None else (a + b) / 2 + more for a, b in pairs]
        means = [None if x is None else (1.0 + math.tanh(x / 2)) / 2 for x in logits]
        return BiLabelScore(means[0] or 0.0, means[1], *logits)

    def _both_logits(self) -> list[float | None]:
        """Return the logit of each label there is, computed where the scorer gave none."""
        labels = (self.has_answer, self.has_answer_logit), (self.llm_prefer, self.llm_prefer_logit)
        return [None if p is None else logit(p, 1e-9) if own is None else own for p, own in labels]

    def grade(self, label: Label = "has_answer") -> float:
        """Return one label as an evaluator's grade, from -1 to 1: ``2 * probability - 1``.

        Args:
            label: Name of the label.

        Raises:
            InputError: If the scorer returned no such label.
        """
        probability = self.has_answer if label == "has_answer" else self.llm_prefer
        if probability is None:
            raise InputError.of("label", given=label, allowed="a label the scorer gives")
        return 2.0 * probability - 1.0

    def __str__(self) -> str:
        """Return both labels, and their sum, in one line."""
        if self.llm_prefer is None:
            return f"has_answer {self.has_answer:.2f}"
        labels = f"has_answer {self.has_answer:.2f}, llm_prefer {self.llm_prefer:.2f}"
        return f"{labels}, sum {self.combine():.2f}"


def logit(probability: float, smallest: float = 1e-7) -> float:
    """Return the logit of a probability, which is clipped to `smallest` from 0 and 1."""
    kept = min(max(probability, smallest), 1.0 - smallest)
    return math.log(kept / (1.0 - kept))


def sigmoid(logit: float) -> float:
    """Return the probability of a logit."""
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


def _are_sound(has: object, prefer: object, first: object, second: object) -> bool:
    """Return whether these are plain finite floats, those of the second label or None."""
    return (
        type(has) is type(first) is float
        and 0.0 <= has <= 1.0
        and -MOST <= first <= MOST
        and (
            prefer is second is None
            or type(prefer) is type(second) is float
            and 0.0 <= prefer <= 1.0
            and -MOST <= second <= MOST
        )
    )


def labels_of(answers: object) -> tuple[BiLabelScore, ...]:
    """Convert a scorer's output to labels; a number in [0, 1] is the only label of its pair."""
    labels = list(check_many("scores", answers, object))
    for i, each in enumerate(labels):
        if isinstance(each, BiLabelScore):
            continue
        try:
            labels[i] = BiLabelScore(check_number("score", each, low=0.0, high=1.0))
        except InputError as error:
            allowed = "a BiLabelScore, or a number from 0 to 1: bring logits there by a sigmoid"
            raise InputError.of(f"scores[{i}]", given=each, allowed=allowed) from error
    return cast(tuple[BiLabelScore, ...], tuple(labels))
