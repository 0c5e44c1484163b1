"""FIT-RAG and its relatives as LlamaIndex components; names load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fitrag_integrations._extras import require_extra

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


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("llama_index.core", extra="llama-index", feature=name)
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    value = globals()[name] = getattr(module, name)  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
