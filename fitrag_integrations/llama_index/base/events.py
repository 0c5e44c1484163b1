"""Events of these components for LlamaIndex's instrumentation, besides the framework's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher  # the core re-exports both
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import NullEventHandler

from fitrag_integrations.core.show import name_of
from fitrag_integrations.flow import Traced
from fitrag_integrations.llama_index.base.convert import scored_nodes, whole_node
from fitrag_integrations.methods.fitrag.method import FitRag
from fitrag_integrations.methods.fitrag.ranking import ranked
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage
from fitrag_integrations.values.context import decided
from fitrag_integrations.values.score import labels_of

dispatcher = get_dispatcher(__name__)


class Event(BaseEvent):
    """Event that is serialized under the name of its class."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event in serialized form."""
        return cls.__name__


class CompressionEvent(Event):
    """Event of a compression: nodes, and tokens by the compressor's counter.

    Args:
        nodes_in: Number of nodes before it.
        nodes_out: Number of nodes after it.
        tokens_in: Number of tokens before it.
        tokens_out: Number of tokens after it.
    """

    nodes_in: float
    nodes_out: float
    tokens_in: float
    tokens_out: float


class RetrievalSkippedEvent(Event):
    """Event of a query for which retrieval was skipped or its passages were discarded.

    Args:
        query: The query.
        p_known: Probability in [0, 1] that the model knows the answer; None if the gate has none.
        threshold: Probability above which it counts as known; None if the gate has none.
        why: The reason in one sentence.
    """

    query: str
    p_known: float | None = None
    threshold: float | None = None
    why: str = ""


class RouteDecisionEvent(Event):
    """Event of a routed question: the chosen route, and why it was chosen.

    Args:
        query: The question.
        route: "known" or "unknown" from a gate, else CRAG's action.
        p_known: A gate's probability in [0, 1].
        threshold: The gate's threshold, in [0, 1].
        best_grade: An evaluator's best grade, in [-1, 1].
        upper: The evaluator's upper threshold, in [-1, 1].
        lower: The evaluator's lower threshold, in [-1, 1].
        notes: What was degraded.
    """

    query: str
    route: str
    p_known: float | None = None
    threshold: float | None = None
    best_grade: float | None = None
    upper: float | None = None
    lower: float | None = None
    why: str = ""
    notes: list[str] = []


def emit_decision(context: Context) -> None:
    """Report the decision on a question: a gate's decision or CRAG's action."""
    decision, query = context.decision, context.question
    if context.action is not None:
        grades, limits = context.details.get("grades"), context.details.get("thresholds")
        limits = limits if isinstance(limits, dict) else {}
        graded = RouteDecisionEvent(
            query=query,
            route=context.action.value,
            best_grade=max(grades) if grades else None,
            upper=limits.get("upper"),
            lower=limits.get("lower"),
            why=explanation(context),
            notes=list(context.notes),
        )
        dispatcher.event(graded)
    if decision is not None:
        values: dict[str, Any] = decision.to_dict()
        del values["retrieve"]
        route = "unknown" if decision.retrieve else "known"
        dispatcher.event(RouteDecisionEvent(query=query, route=route, **values))
        if not decision.retrieve:
            dispatcher.event(RetrievalSkippedEvent(query=query, **values))


def emit_reduced(traced: Traced[Context], method: Any, nodes: Sequence[NodeWithScore]) -> None:
    """Report a FIT-RAG run as the events of a reranker and of a compressor.

    The start event has the scored nodes with the retriever's scores; the end event has the best of
    them, before any was shortened. If all nodes are kept, a custom scorer scores only their
    windows, and no reranking is reported.

    Args:
        traced: The run.
        method: Method that ran; others than FIT-RAG are not reported.
        nodes: Input nodes.
    """
    values = traced.value.details
    if not isinstance(method, FitRag) or "reranked" not in values or not _heard():
        return
    graded = [
        Excerpt.whole(passage, score=labels.relevance(method.weight), labels=labels)
        for passage, labels in _scored(traced, values["scored"])
    ]
    question, most = traced.value.question, values["reranked"]
    if graded:
        start = ReRankStartEvent(
            query=QueryBundle(question),
            nodes=scored_nodes(excerpt.passage for excerpt in graded),
            top_n=len(graded) if method.top_n is None else method.top_n,
            model_name=name_of("embedded" if method.scorer is None else method.scorer),
        )
        dispatcher.event(start)
        best = ranked(question, graded, method.plan.prior)[:most]
        dispatcher.event(ReRankEndEvent(nodes=[whole_node(excerpt, "rerank") for excerpt in best]))
    dispatcher.event(
        CompressionEvent(
            nodes_in=most,
            nodes_out=len(nodes),
            tokens_in=values["tokens_in"],
            tokens_out=values["tokens_out"],
        )
    )


def _heard() -> bool:
    """Check whether anybody handles events: their nodes are built for nobody else."""
    each: Any = dispatcher
    while each is not None:
        if not all(isinstance(handler, NullEventHandler) for handler in each.event_handlers):
            return True
        each = each.parent if each.propagate else None
    return False


def _scored(traced: Traced[Context], count: int) -> Iterator[tuple[Passage, BiLabelScore]]:
    """Find in the trace the passages that were scored, and their labels.

    One pass is asked with the spans of the sentences too, and answers with their labels behind.
    """
    for step in traced.steps:
        if step.port.startswith("score") and len(step.items) == count and step.error is None:
            one_pass = step.port == "score_sentences"
            wholes = [answer[0] for answer in step.answers] if one_pass else step.answers
            yield from zip([item[1] for item in step.items], labels_of(wholes), strict=True)
            return


def explanation(context: Context) -> str:
    """Return one line with the decision and its numbers, or an empty text."""
    heads = ("decision: ", "action: ")
    lines = (line for line in decided(context) if line.startswith(heads))
    return next(lines, "").partition(": ")[2]
