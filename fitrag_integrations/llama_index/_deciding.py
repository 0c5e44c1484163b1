"""Decide from the question alone, for LlamaIndex's selectors and routers (IK, section 3)."""

from __future__ import annotations

from typing import Any

from fitrag_integrations.flow import Flow
from fitrag_integrations.llama_index._llm import drafter_of
from fitrag_integrations.methods.deciding import Decider, OnError
from fitrag_integrations.ports import Gate
from fitrag_integrations.types import Context


def decider_of(
    gate: Gate | None,
    *,
    drafter: Any,
    threshold: float | None,
    on_error: OnError,
    allow_other_model: bool,
) -> Decider:
    """Make the decider, which tells of a wrong argument; ``drafter`` may be a LlamaIndex LLM."""
    return Decider(
        gate,
        drafter=drafter_of(drafter),
        threshold=threshold,
        on_error=on_error,
        allow_other_model=allow_other_model,
    )


def decided_context(decider: Decider, question: str) -> Flow[Context]:
    """Give the flow that ends in a context with the decision, and without excerpts.

    Whatever it says, the rest is the caller's. The prompt of a known question is the no-retrieval
    one.
    """
    known = yield from decider(question)
    return Context(
        question,
        decision=known.decision,
        draft=known.draft,
        method="iknow",
        details=decider.details(known),
    )
