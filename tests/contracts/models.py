"""The contracts of scorers, evaluators, gates and retrievers: n items in, n answers out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from contracts.batches import (
    ODD_PASSAGES,
    ODD_QUESTIONS,
    PASSAGES,
    QUESTIONS,
    Batched,
    Check,
    promise,
)
from fitrag_integrations.ports import Evaluator, Gate, Pair, Retriever, Scorer
from fitrag_integrations.types import BiLabelScore, Passage

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
        make, *_calls("score"), PAIRS, ODD, _labels,  # a BiLabelScore checks itself
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
        make, *_calls("evaluate"), PAIRS, ODD, lambda grade: [grade], _wrong_grade, tolerance,
    )  # fmt: skip
    return [*batched.checks(), Check("carries_a_name", lambda: _named(make()))]


def _calls(verb: str) -> tuple[Callable[[object], Any], Callable[[object], Any]]:
    """Return how the call of a verb is found on an object, and how its async twin is."""
    return lambda it: getattr(it, verb, None), lambda it: getattr(it, f"a{verb}", None)


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


A = TypeVar("A")
Asked = tuple[str, str]  # a question, and the model's first words on it
DRAFTS = ("The Danube.", "I do not know.", "")
DRAFTED: Sequence[Asked] = [(question, draft) for question in QUESTIONS for draft in DRAFTS]


def gate_checks(make: Callable[[], Gate], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Gate``: p and the threshold are in [0, 1].

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item.
    """
    call, acall = _calls("p_known")
    batched = Batched[Asked, float](
        make, lambda it: _paired(call(it)), lambda it: _paired(acall(it)),
        DRAFTED, [(question, "") for question in ODD_QUESTIONS], lambda p: [p], _wrong_p, tolerance,
    )  # fmt: skip
    return [*batched.checks(), Check("has_a_threshold_in_range", lambda: _threshold(make()))]


def _paired(
    call: Callable[[Sequence[str], Sequence[str]], A] | None,
) -> Callable[[Sequence[Asked]], A] | None:
    """Turn a call of two lists, plain or async, into one of pairs."""
    if call is None:
        return None
    return lambda items: call([q for q, _ in items], [draft for _, draft in items])


def _wrong_p(p: float) -> str | None:
    return None if math.isfinite(p) and 0 <= p <= 1 else "not in [0, 1]"


def _threshold(gate: Gate) -> None:
    threshold = getattr(gate, "threshold", None)
    if threshold is not None:
        promise(_wrong_p(threshold) is None, f"its threshold is {threshold}, and p lies in [0, 1]")


def retriever_checks(
    make: Callable[[], Retriever], queries: Sequence[str] = QUESTIONS
) -> list[Check]:
    """Return the checks of ``ports.Retriever``.

    A query finds the same passages alone and in a batch and no passage twice, and changes to what
    was found are not seen by the next caller.

    Args:
        make: Builds a new retriever for each check.
        queries: Queries that must find something.
    """
    numbers: dict[str, float] = {}

    def numbered(found: Sequence[Passage]) -> Sequence[float]:
        return [numbers.setdefault(passage.id, float(len(numbers))) for passage in found]

    batched = Batched[str, Sequence[Passage]](
        make, *_calls("retrieve"), queries, ODD_QUESTIONS, numbered, _wrong_list, 0.0,
    )  # fmt: skip
    return [
        *batched.checks(),
        Check(
            "finds_something",
            lambda: promise(
                any(map(len, make().retrieve(queries))), f"nothing was found for {list(queries)}"
            ),
        ),
        Check("hands_out_what_nobody_else_changes", lambda: _apart(make(), queries)),
    ]


def _wrong_list(found: Sequence[Passage]) -> str | None:
    if not all(isinstance(passage, Passage) for passage in found):
        return "not a list of Passage"
    ids = [passage.id for passage in found]
    return None if len(set(ids)) == len(ids) else "two passages of one id"


def _apart(retriever: Retriever, queries: Sequence[str]) -> None:
    found = retriever.retrieve(queries)
    before = [list(each) for each in found]
    for each in found:
        if isinstance(each, list):
            each.clear()
    again = [list(each) for each in retriever.retrieve(queries)]
    promise(again == before, "a caller who empties its list empties that of the next one")
