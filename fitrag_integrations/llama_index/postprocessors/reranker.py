"""Rerank nodes by FIT-RAG's two labels (section 4.4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.flow import Flow, arun, run
from fitrag_integrations.llama_index.base.compressor import (
    Postprocessor,
    question_of,
    with_pictures,
)
from fitrag_integrations.llama_index.base.convert import passages_of, whole_node
from fitrag_integrations.llama_index.base.events import dispatcher
from fitrag_integrations.llama_index.base.fitting import FromFitted
from fitrag_integrations.methods.adapting import name_of
from fitrag_integrations.methods.fitrag.reducer import rerank, score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import Excerpt


class BiLabelReranker(FromFitted, Postprocessor):
    """Keep the nodes that hold the answer and that the language model can use, best first.

    Nodes come back as copies with ``relevance_score``, ``has_answer`` and ``llm_prefer`` in [0, 1]
    in their metadata. One without text cannot be scored and does not come back, but for an image,
    which stays behind the others. ``scorer`` None is the embedded one, loaded at
    first use; any object with ``score(pairs)`` will do.
    """

    top_n: int = Field(default=10, description="How many nodes to keep.")
    weight: float = Field(
        default=0.5,
        description="Weight of llm_prefer against has_answer, in [0, 1]; 0.5 is their sum.",
    )

    def __init__(
        self,
        *,
        top_n: int = 10,
        weight: float = 0.5,
        scorer: Scorer | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        score_port(scorer)  # tells of a wrong one here
        super().__init__(
            models={"scorer": scorer},
            callback_manager=callback_manager,
            top_n=check_whole("top_n", top_n, low=1),
            weight=check_number("weight", weight, low=0.0, high=1.0),
        )

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._told(nodes, query_bundle) as kept:
            if nodes:
                copied = self._copied(run(self._flow(nodes, query_bundle)).value)
                kept.extend(with_pictures(nodes, copied))
        return kept

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._told(nodes, query_bundle) as kept:
            if nodes:
                traced = await arun(self._flow(nodes, query_bundle))
                kept.extend(with_pictures(nodes, self._copied(traced.value)))
        return kept

    def _flow(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Flow[list[Excerpt]]:
        score = score_port(self._models.get("scorer"))
        question = question_of(query_bundle)
        return rerank(question, passages_of(nodes), score, top_n=self.top_n, weight=self.weight)

    def _copied(self, excerpts: list[Excerpt]) -> list[NodeWithScore]:
        return [whole_node(excerpt, "rerank") for excerpt in excerpts]

    @contextmanager
    def _told(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Iterator[list[NodeWithScore]]:
        """Report the start, and at the end what was put into the list given out."""
        question = question_of(query_bundle)
        passages_of(nodes)  # a wrong type is told in our words, before the events check it
        model = name_of(self._models.get("scorer", "embedded"))
        dispatcher.event(
            ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=model)
        )
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: model,
            EventPayload.QUERY_STR: question,
            EventPayload.TOP_K: self.top_n,
        }
        kept: list[NodeWithScore] = []
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield kept
            event.on_end(payload={EventPayload.NODES: kept})
        dispatcher.event(ReRankEndEvent(nodes=kept))
