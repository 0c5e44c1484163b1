"""Refine nodes to their knowledge strips (CRAG, section 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations.flow import Flow, arun, run
from fitrag_integrations.llama_index.base.compressor import (
    DerivedPostprocessor,
    Explaining,
    options,
    question_of,
    with_pictures,
)
from fitrag_integrations.llama_index.base.convert import passages_of, piece_node
from fitrag_integrations.llama_index.base.events import CompressionEvent, dispatcher
from fitrag_integrations.llama_index.base.fields import signed
from fitrag_integrations.methods.crag.refiner import Refined, Refiner
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.methods.explain.explaining import explained_refinement
from fitrag_integrations.types import Passage

if TYPE_CHECKING:
    RefinerOptions = DerivedPostprocessor
else:
    RefinerOptions = options(Refiner)


class KnowledgeRefiner(Explaining, RefinerOptions):
    """Replace nodes by the strips of a few sentences that matter, in the order of the documents.

    The strips are new nodes with true offsets; their score is the evaluator's grade, brought to
    [0, 1]. ``evaluator`` None is the embedded one, loaded at first use; any object with
    ``evaluate(pairs)`` will do. The options are those of ``fitrag_integrations.methods.Refiner``.
    An image without text stays, behind the strips.
    """

    def __init__(self, evaluator: Any = None, **options: Any) -> None:
        super().__init__(evaluator=evaluator, **options)

    @property
    def refiner(self) -> Refiner:
        """Give the refiner with the options as they are now."""
        return Refiner(**self.settings())

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        question, passages = question_of(query_bundle), passages_of(nodes)
        self._last = traced = run(self.refiner(question, passages))
        return with_pictures(nodes, self._strips(passages, traced.value))

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        question, passages = question_of(query_bundle), passages_of(nodes)
        self._last = traced = await arun(self.refiner(question, passages))
        return with_pictures(nodes, self._strips(passages, traced.value))

    def explained(self, question: str, passages: list[Passage]) -> Flow[Compression]:
        """Give the flow that ends in the strips kept and dropped, with the reasons."""
        return explained_refinement(question, passages, self.refiner)

    def _strips(self, passages: list[Passage], refined: Refined) -> list[NodeWithScore]:
        strips = [piece_node(excerpt, "refine") for excerpt in refined.excerpts]
        dispatcher.event(
            CompressionEvent(
                nodes_in=float(len(passages)),
                nodes_out=float(len(strips)),
                tokens_in=float(refined.details["tokens_in"]),
                tokens_out=float(refined.details["tokens_out"]),
            )
        )
        return strips


signed(KnowledgeRefiner, Refiner, ("callback_manager",))
