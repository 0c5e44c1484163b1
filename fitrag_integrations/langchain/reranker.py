"""Rerank documents by the bi-label scorer (FIT-RAG, sections 4.2 and 4.4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain._compressor import FlowCompressor
from fitrag_integrations.langchain._fields import AnyScorer, Count, Weight
from fitrag_integrations.langchain.cross_encoder import BiLabelCrossEncoder
from fitrag_integrations.methods.fitrag import rerank
from fitrag_integrations.methods.reducer import score_port
from fitrag_integrations.types import Excerpt, Passage


class BiLabelReranker(FlowCompressor):
    """Keep the documents most likely to hold the answer and to help the language model.

    Works in every host of LangChain compressors::

        ContextualCompressionRetriever(base_retriever=r, base_compressor=BiLabelReranker(top_n=5))
    """

    top_n: Count | None = 10
    """Documents to keep; None keeps all, in their new order."""

    weight: Weight = 0.5
    """Weight of ``llm_prefer`` against ``has_answer``, in [0, 1]; 0.5 is their plain sum."""

    scorer: AnyScorer = None
    """An object with ``score(pairs)``; None is the embedded scorer, loaded at first use."""

    def flow(
        self, query: str, passages: Sequence[Passage]
    ) -> Flow[tuple[list[Excerpt], dict[str, Any]]]:
        """Give the flow that ends in the best passages, best first."""
        score = score_port(self.scorer)
        kept = yield from rerank(query, passages, score, top_n=self.top_n, weight=self.weight)
        return kept, {"method": "rerank", "weight": self.weight, "top_n": self.top_n}

    def as_cross_encoder(self) -> BiLabelCrossEncoder:
        """Give the scorer the face the stock ``CrossEncoderReranker`` takes."""
        return BiLabelCrossEncoder(self.scorer, weight=self.weight)
