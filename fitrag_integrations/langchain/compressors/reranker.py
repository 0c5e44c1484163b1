"""Rerank documents by the bi-label scorer (FIT-RAG, sections 4.2 and 4.4.1)."""

from __future__ import annotations

from fitrag_integrations.langchain.base.compressor import FlowCompressor
from fitrag_integrations.langchain.base.options import RerankerOptions
from fitrag_integrations.langchain.compressors.cross_encoder import BiLabelCrossEncoder
from fitrag_integrations.methods.compose.fitted import FromFitted


class BiLabelReranker(FromFitted, RerankerOptions, FlowCompressor):
    """Keep the documents most likely to hold the answer and to help the language model.

    Works in every host of LangChain compressors::

        ContextualCompressionRetriever(base_retriever=r, base_compressor=BiLabelReranker(top_n=5))
    """

    def as_cross_encoder(self) -> BiLabelCrossEncoder:
        """Return the scorer the face the stock ``CrossEncoderReranker`` takes."""
        return BiLabelCrossEncoder(self.scorer, weight=self.weight)
