"""Reduce nodes to their best few sentences (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations.flow import Flow, Traced, arun, run
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
from fitrag_integrations.llama_index.base.fitting import FromFitted
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.methods.explain.explaining import explained_reduction
from fitrag_integrations.methods.fitrag.reducer import (
    Reduced,
    ScorePort,
    TokenReducer,
    score_port,
)
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.types import Excerpt, Passage

if TYPE_CHECKING:
    ReducerOptions = DerivedPostprocessor
else:
    ReducerOptions = options(TokenReducer)


class SubDocumentCompressor(FromFitted, Explaining, ReducerOptions):
    """Replace each node by its best sentences, best first, within a token budget.

    The pieces are new nodes with true offsets. ``max_tokens`` counts the numbered list of titles
    and texts of FIT-RAG's prompt; other metadata that a node shows to a language model comes on
    top. ``scorer`` None is the embedded one, loaded at first use; any object with ``score(pairs)``
    will do. The options are those of ``fitrag_integrations.methods.TokenReducer``. An image without
    text stays, behind the pieces.
    """

    def __init__(self, *, scorer: Any = None, **options: Any) -> None:
        score_port(scorer)  # tells of a wrong one here
        super().__init__(**options)
        if scorer is not None:
            self._models["scorer"] = scorer

    @property
    def reducer(self) -> TokenReducer:
        """Give the token reducer with the options as they are now."""
        return TokenReducer(**self.settings())

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        question, passages = question_of(query_bundle), passages_of(nodes)
        self._last = traced = run(self._flow(question, passages))
        return with_pictures(nodes, self._pieces(passages, traced))

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        question, passages = question_of(query_bundle), passages_of(nodes)
        self._last = traced = await arun(self._flow(question, passages))
        return with_pictures(nodes, self._pieces(passages, traced))

    def explained(self, question: str, passages: list[Passage]) -> Flow[Compression]:
        """Give the flow to the windows kept for `question` and dropped, with the reasons."""
        return explained_reduction(question, passages, self.reducer, self._score())

    def _flow(self, question: str, passages: list[Passage]) -> Flow[Reduced]:
        return self.reducer(question, passages, self._score())

    def _score(self) -> ScorePort:
        return score_port(self._models.get("scorer"))

    def _pieces(self, passages: list[Passage], traced: Traced[Reduced]) -> list[NodeWithScore]:
        kept, _ = traced.value
        pieces = [piece_node(excerpt, "compress") for excerpt in kept]
        cost = self.reducer.counter
        dispatcher.event(
            CompressionEvent(
                nodes_in=float(len(passages)),
                nodes_out=float(len(pieces)),
                tokens_in=float(cost(render_excerpts([Excerpt.whole(p) for p in passages]))),
                tokens_out=float(cost(render_excerpts(kept))),
            )
        )
        return pieces


signed(SubDocumentCompressor, TokenReducer, ("callback_manager",))
