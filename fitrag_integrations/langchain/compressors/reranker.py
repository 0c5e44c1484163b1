"""Rerank documents by the bi-label scorer (FIT-RAG, sections 4.2 and 4.4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import field_validator

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.compressor import FlowCompressor
from fitrag_integrations.langchain.base.fields import AnyModel, Count, Weight
from fitrag_integrations.langchain.base.fitting import FromFitted
from fitrag_integrations.langchain.compressors.cross_encoder import BiLabelCrossEncoder
from fitrag_integrations.methods.fitrag.method import rerank
from fitrag_integrations.methods.fitrag.reducer import score_port
from fitrag_integrations.types import Context, Passage


class BiLabelReranker(FromFitted, FlowCompressor):
    """Keep the documents most likely to hold the answer and to help the language model.

    Works in every host of LangChain compressors::

        ContextualCompressionRetriever(base_retriever=r, base_compressor=BiLabelReranker(top_n=5))
    """

    top_n: Count | None = 10
    """Documents to keep; None keeps all, in their new order."""

    weight: Weight = 0.5
    """Weight of ``llm_prefer`` against ``has_answer``, in [0, 1]; 0.5 is their plain sum."""

    scorer: AnyModel = None
    """An object with ``score(pairs)``, or a ``BaseCrossEncoder``; None is the embedded scorer."""

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the best passages, best first."""
        score = score_port(self.scorer)
        kept = yield from rerank(query, passages, score, top_n=self.top_n, weight=self.weight)
        details = {"weight": self.weight, "top_n": self.top_n}
        return Context(query, tuple(kept), method="rerank", details=details)

    @field_validator("scorer")
    @classmethod
    def _check_scorer(cls, scorer: Any) -> Any:
        score_port(scorer)
        return scorer

    def as_cross_encoder(self) -> BiLabelCrossEncoder:
        """Give the scorer the face the stock ``CrossEncoderReranker`` takes."""
        return BiLabelCrossEncoder(self.scorer, weight=self.weight)
