"""FIT-RAG and its relatives as LlamaIndex components; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations._lazy import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.llama_index.compress import SubDocumentCompressor
    from fitrag_integrations.llama_index.events import CompressionEvent, RetrievalSkippedEvent
    from fitrag_integrations.llama_index.faiss import FaissRetriever
    from fitrag_integrations.llama_index.query_engine import MethodQueryEngine
    from fitrag_integrations.llama_index.rerank import BiLabelReranker
    from fitrag_integrations.llama_index.retrieve import FitRagRetriever, MethodRetriever

_MODULE_OF = {
    "BiLabelReranker": "rerank",
    "CompressionEvent": "events",
    "FaissRetriever": "faiss",
    "FitRagRetriever": "retrieve",
    "MethodQueryEngine": "query_engine",
    "MethodRetriever": "retrieve",
    "RetrievalSkippedEvent": "events",
    "SubDocumentCompressor": "compress",
}

__all__ = [
    "BiLabelReranker",
    "CompressionEvent",
    "FaissRetriever",
    "FitRagRetriever",
    "MethodQueryEngine",
    "MethodRetriever",
    "RetrievalSkippedEvent",
    "SubDocumentCompressor",
]

__getattr__, __dir__ = lazy_names(
    __name__, _MODULE_OF, extra="llama-index", needs="llama_index.core"
)
