"""Refine documents to the strips that are about the question (CRAG, section 4.4)."""

from __future__ import annotations

from fitrag_integrations.langchain.base.compressor import CuttingCompressor
from fitrag_integrations.langchain.base.options import RefinerOptions
from fitrag_integrations.methods.compose.fitted import FromFitted


class KnowledgeRefiner(FromFitted, RefinerOptions, CuttingCompressor):
    """Cut documents into strips and keep the best, in the order of the documents.

    Works in every host of LangChain compressors::

        ContextualCompressionRetriever(base_retriever=r, base_compressor=KnowledgeRefiner())
    """
