"""Turn what a method found and answered into a LlamaIndex response."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)

from fitrag_integrations.core.record import plain
from fitrag_integrations.flow import Traced
from fitrag_integrations.llama_index.base.convert import context_nodes
from fitrag_integrations.llama_index.base.events import emit_decision
from fitrag_integrations.methods import adapting
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.types import Context


def response_of(traced: Traced[Any], tokens: Any = None) -> RESPONSE_TYPE:
    """Make the response; ``tokens``, a generator of either kind, makes it a streaming one.

    Raises what the flow ended with.
    """
    outcome = traced.value
    context = outcome if isinstance(outcome, Context) else outcome.context
    emit_decision(context)
    nodes, summary = context_nodes(context), {"fitrag": report(traced, context)}
    if isinstance(tokens, AsyncGenerator):
        return AsyncStreamingResponse(tokens, nodes, summary)
    if isinstance(tokens, Generator):
        return StreamingResponse(tokens, nodes, summary)
    return Response(outcome.text, nodes, summary)


def report(traced: Traced[Any], context: Context) -> dict[str, Any]:
    """Return in plain values what was decided, what was noted, and which steps were run."""
    summary = adapting.summary(context)
    summary["queries"] = list(context.queries)
    summary["notes"] = list(context.notes)
    summary["steps"] = [step.to_dict() for step in traced.steps]
    if isinstance(traced.outcome, Answered):
        answer: dict[str, Any] = {"score": plain(traced.outcome.score)}
        if (one := traced.outcome.source) is not None:  # where an extracted answer stands
            answer |= {"source_id": one.passage.id, "start": one.start, "end": one.end}
        summary["answer"] = answer
    return summary
