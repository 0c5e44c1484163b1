"""FIT-RAG and its relatives as LlamaIndex components; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.llama_index.base.events import (
        CompressionEvent,
        RetrievalSkippedEvent,
        RouteDecisionEvent,
    )
    from fitrag_integrations.llama_index.citing import cite_nodes, numbered_nodes
    from fitrag_integrations.llama_index.embeddings import EncoderEmbedding
    from fitrag_integrations.llama_index.postprocessors.refiner import KnowledgeRefiner
    from fitrag_integrations.llama_index.postprocessors.reranker import BiLabelReranker
    from fitrag_integrations.llama_index.postprocessors.sub_documents import SubDocumentCompressor
    from fitrag_integrations.llama_index.prompts import prompt
    from fitrag_integrations.llama_index.retrievers.corrective import CorrectiveRetriever
    from fitrag_integrations.llama_index.retrievers.faiss import FaissRetriever
    from fitrag_integrations.llama_index.retrievers.fitrag import FitRagRetriever
    from fitrag_integrations.llama_index.retrievers.itrg import ITRGRetriever
    from fitrag_integrations.llama_index.retrievers.method import MethodRetriever
    from fitrag_integrations.llama_index.retrievers.slimplm import SlimPLMRetriever
    from fitrag_integrations.llama_index.retrievers.web_search import WebSearchRetriever
    from fitrag_integrations.llama_index.routers.corrective import CorrectiveRouterQueryEngine
    from fitrag_integrations.llama_index.routers.knowledge import KnowledgeRouterQueryEngine
    from fitrag_integrations.llama_index.routers.selector import KnowledgeSelector
    from fitrag_integrations.llama_index.tracing import TraceHandler
    from fitrag_integrations.llama_index.whole.method_query_engine import MethodQueryEngine

_MODULE_OF = {
    "BiLabelReranker": "postprocessors.reranker",
    "CompressionEvent": "base.events",
    "CorrectiveRetriever": "retrievers.corrective",
    "CorrectiveRouterQueryEngine": "routers.corrective",
    "EncoderEmbedding": "embeddings",
    "FaissRetriever": "retrievers.faiss",
    "FitRagRetriever": "retrievers.fitrag",
    "ITRGRetriever": "retrievers.itrg",
    "KnowledgeRefiner": "postprocessors.refiner",
    "KnowledgeRouterQueryEngine": "routers.knowledge",
    "KnowledgeSelector": "routers.selector",
    "MethodQueryEngine": "whole.method_query_engine",
    "MethodRetriever": "retrievers.method",
    "RetrievalSkippedEvent": "base.events",
    "RouteDecisionEvent": "base.events",
    "SlimPLMRetriever": "retrievers.slimplm",
    "SubDocumentCompressor": "postprocessors.sub_documents",
    "TraceHandler": "tracing",
    "WebSearchRetriever": "retrievers.web_search",
    "cite_nodes": "citing",
    "numbered_nodes": "citing",
    "prompt": "prompts",
}

__all__ = [
    "BiLabelReranker",
    "CompressionEvent",
    "CorrectiveRetriever",
    "CorrectiveRouterQueryEngine",
    "EncoderEmbedding",
    "FaissRetriever",
    "FitRagRetriever",
    "ITRGRetriever",
    "KnowledgeRefiner",
    "KnowledgeRouterQueryEngine",
    "KnowledgeSelector",
    "MethodQueryEngine",
    "MethodRetriever",
    "RetrievalSkippedEvent",
    "RouteDecisionEvent",
    "SlimPLMRetriever",
    "SubDocumentCompressor",
    "TraceHandler",
    "WebSearchRetriever",
    "cite_nodes",
    "numbered_nodes",
    "prompt",
]

__getattr__, __dir__ = lazy_names(
    __name__, _MODULE_OF, extra="llama-index", needs="llama_index.core"
)
