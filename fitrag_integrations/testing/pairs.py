"""The contracts of ``Scorer`` and ``Evaluator``: models of a question and a passage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fitrag_integrations.ports import Evaluator, Pair, Scorer
from fitrag_integrations.testing.batches import (
    ODD_PASSAGES,
    ODD_QUESTIONS,
    PASSAGES,
    QUESTIONS,
    Batched,
    Check,
    promise,
)
from fitrag_integrations.types import BiLabelScore

PAIRS: Sequence[Pair] = [(question, passage) for question in QUESTIONS for passage in PASSAGES]
ODD: Sequence[Pair] = [
    *((question, PASSAGES[0]) for question in ODD_QUESTIONS),
    *((QUESTIONS[0], passage) for passage in ODD_PASSAGES),
]


def scorer_checks(make: Callable[[], Scorer], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Scorer``.

    Besides what holds for every batched call, a scorer carries a ``name`` that does not change:
    thresholds and detectors are held to it.

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item.
    """
    batched = Batched[Pair, BiLabelScore](
        make, lambda it: getattr(it, "score", None), lambda it: getattr(it, "ascore", None),
        PAIRS, ODD, _labels,  # a BiLabelScore checks itself
        lambda score: None if isinstance(score, BiLabelScore) else "not a BiLabelScore", tolerance,
    )  # fmt: skip
    return [*batched.checks(), Check("carries_a_name", lambda: _named(make()))]


def evaluator_checks(make: Callable[[], Evaluator], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Evaluator``: those of a scorer, for grades in [-1, 1].

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item.
    """
    batched = Batched[Pair, float](
        make, lambda it: getattr(it, "evaluate", None), lambda it: getattr(it, "aevaluate", None),
        PAIRS, ODD, lambda grade: [grade], _wrong_grade, tolerance,
    )  # fmt: skip
    return [*batched.checks(), Check("carries_a_name", lambda: _named(make()))]


def _labels(score: BiLabelScore) -> Sequence[float]:
    return [label for label in (score.has_answer, score.llm_prefer) if label is not None]


def _wrong_grade(grade: float) -> str | None:
    if isinstance(grade, bool) or not isinstance(grade, int | float):
        return "not a number"
    return None if math.isfinite(grade) and -1 <= grade <= 1 else "not in [-1, 1]"


def _named(backend: object) -> None:
    name = getattr(backend, "name", None)
    promise(isinstance(name, str) and bool(name.strip()), f"its name is {name!r}: give a text")
    promise(name == getattr(backend, "name", None), "its name changes from look to look")
