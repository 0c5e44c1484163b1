"""Keep of an answer's trace what a reader of the question wants to see, as plain values."""

from __future__ import annotations

from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Traced
from fitrag_integrations.methods.answer.answering import Answered
from fitrag_integrations.types import Excerpt


def trace_fields(traced: Traced[Answered]) -> Row:
    """Give `explained`, the trace in lines, and what the method decided and kept.

    `decision` and `action` are there where the method has one, `excerpts` where it kept any, each
    with its passage's id, title and text, and `rounds` where it wrote in rounds, each with its
    document and answer. A question that ended in an error has its trace alone.
    """
    kept: dict[str, object] = {"explained": traced.explain()}
    if traced.error is not None:
        return kept
    context = traced.value.context
    if context.decision is not None:
        kept["decision"] = context.decision.to_dict()
    if context.action is not None:
        kept["action"] = context.action.value
    if context.excerpts:
        kept["excerpts"] = [_excerpt(each) for each in context.excerpts]
    rounds = [each for each in context.details.get("rounds", ()) if "document" in each]
    if rounds:
        kept["rounds"] = [{name: each[name] for name in ("document", "answer")} for each in rounds]
    return kept


def _excerpt(excerpt: Excerpt) -> Row:
    passage = excerpt.passage
    return {
        "passage": {"id": passage.id, "title": passage.title, "text": passage.text},
        "start": excerpt.start,
        "end": excerpt.end,
        "score": excerpt.score,
    }
