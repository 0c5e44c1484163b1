"""The contract of ``Gate``: how likely a question is known without retrieval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from fitrag_integrations.ports import Gate
from fitrag_integrations.testing.batches import ODD_QUESTIONS, QUESTIONS, Batched, Check, promise

A = TypeVar("A")
Asked = tuple[str, str]  # a question, and the model's first words on it
DRAFTS = ("The Danube.", "I do not know.", "")
ITEMS: Sequence[Asked] = [(question, draft) for question in QUESTIONS for draft in DRAFTS]


def gate_checks(make: Callable[[], Gate], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Gate``: p and the threshold are in [0, 1].

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item.
    """
    batched = Batched[Asked, float](
        make, lambda it: _paired(getattr(it, "p_known", None)),
        lambda it: _paired(getattr(it, "ap_known", None)),
        ITEMS, [(question, "") for question in ODD_QUESTIONS], lambda p: [p], _wrong, tolerance,
    )  # fmt: skip
    return [*batched.checks(), Check("has_a_threshold_in_range", lambda: _threshold(make()))]


def _paired(
    call: Callable[[Sequence[str], Sequence[str]], A] | None,
) -> Callable[[Sequence[Asked]], A] | None:
    """Turn a call of two lists, plain or async, into one of pairs."""
    if call is None:
        return None
    return lambda items: call([q for q, _ in items], [draft for _, draft in items])


def _wrong(p: float) -> str | None:
    return None if math.isfinite(p) and 0 <= p <= 1 else "not in [0, 1]"


def _threshold(gate: Gate) -> None:
    threshold = getattr(gate, "threshold", None)
    if threshold is not None:
        promise(_wrong(threshold) is None, f"its threshold is {threshold}, and p lies in [0, 1]")
