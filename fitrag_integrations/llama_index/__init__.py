"""FIT-RAG and its relatives as LlamaIndex components; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.llama_index.base.events import CompressionEvent as CompressionEvent
    from fitrag_integrations.llama_index.base.events import (
        RetrievalSkippedEvent as RetrievalSkippedEvent,
    )
    from fitrag_integrations.llama_index.base.events import RouteDecisionEvent as RouteDecisionEvent
    from fitrag_integrations.llama_index.base.prompts import cite_nodes as cite_nodes
    from fitrag_integrations.llama_index.base.prompts import numbered_nodes as numbered_nodes
    from fitrag_integrations.llama_index.base.prompts import prompt as prompt
    from fitrag_integrations.llama_index.embeddings import EncoderEmbedding as EncoderEmbedding
    from fitrag_integrations.llama_index.method_engine import (
        MethodQueryEngine as MethodQueryEngine,
    )
    from fitrag_integrations.llama_index.postprocessors import (
        BiLabelReranker as BiLabelReranker,
    )
    from fitrag_integrations.llama_index.postprocessors import (
        KnowledgeRefiner as KnowledgeRefiner,
    )
    from fitrag_integrations.llama_index.postprocessors import (
        SubDocumentCompressor as SubDocumentCompressor,
    )
    from fitrag_integrations.llama_index.retrievers import (
        CorrectiveRetriever as CorrectiveRetriever,
    )
    from fitrag_integrations.llama_index.retrievers import FaissRetriever as FaissRetriever
    from fitrag_integrations.llama_index.retrievers import FitRagRetriever as FitRagRetriever
    from fitrag_integrations.llama_index.retrievers import ITRGRetriever as ITRGRetriever
    from fitrag_integrations.llama_index.retrievers import MethodRetriever as MethodRetriever
    from fitrag_integrations.llama_index.retrievers import (
        SlimPLMRetriever as SlimPLMRetriever,
    )
    from fitrag_integrations.llama_index.retrievers import (
        WebSearchRetriever as WebSearchRetriever,
    )
    from fitrag_integrations.llama_index.routers import (
        CorrectiveRouterQueryEngine as CorrectiveRouterQueryEngine,
    )
    from fitrag_integrations.llama_index.routers import (
        KnowledgeRouterQueryEngine as KnowledgeRouterQueryEngine,
    )
    from fitrag_integrations.llama_index.routers import (
        KnowledgeSelector as KnowledgeSelector,
    )

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BiLabelReranker": "postprocessors",
        "CompressionEvent": "base.events",
        "CorrectiveRetriever": "retrievers",
        "CorrectiveRouterQueryEngine": "routers",
        "EncoderEmbedding": "embeddings",
        "FaissRetriever": "retrievers",
        "FitRagRetriever": "retrievers",
        "ITRGRetriever": "retrievers",
        "KnowledgeRefiner": "postprocessors",
        "KnowledgeRouterQueryEngine": "routers",
        "KnowledgeSelector": "routers",
        "MethodQueryEngine": "method_engine",
        "MethodRetriever": "retrievers",
        "RetrievalSkippedEvent": "base.events",
        "RouteDecisionEvent": "base.events",
        "SlimPLMRetriever": "retrievers",
        "SubDocumentCompressor": "postprocessors",
        "WebSearchRetriever": "retrievers",
        "cite_nodes": "base.prompts",
        "numbered_nodes": "base.prompts",
        "prompt": "base.prompts",
    },
    extra="llama-index",
    needs="llama_index.core",
)
