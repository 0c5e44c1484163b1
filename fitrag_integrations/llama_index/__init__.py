"""FIT-RAG and its relatives as LlamaIndex components; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.llama_index.base.citing import cite_nodes as cite_nodes
    from fitrag_integrations.llama_index.base.citing import numbered_nodes as numbered_nodes
    from fitrag_integrations.llama_index.base.events import CompressionEvent as CompressionEvent
    from fitrag_integrations.llama_index.base.events import (
        RetrievalSkippedEvent as RetrievalSkippedEvent,
    )
    from fitrag_integrations.llama_index.base.events import RouteDecisionEvent as RouteDecisionEvent
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
    from fitrag_integrations.llama_index.retrievers.corrective import (
        CorrectiveRetriever as CorrectiveRetriever,
    )
    from fitrag_integrations.llama_index.retrievers.faiss import FaissRetriever as FaissRetriever
    from fitrag_integrations.llama_index.retrievers.fitrag import FitRagRetriever as FitRagRetriever
    from fitrag_integrations.llama_index.retrievers.itrg import ITRGRetriever as ITRGRetriever
    from fitrag_integrations.llama_index.retrievers.method import MethodRetriever as MethodRetriever
    from fitrag_integrations.llama_index.retrievers.slimplm import (
        SlimPLMRetriever as SlimPLMRetriever,
    )
    from fitrag_integrations.llama_index.retrievers.web_search import (
        WebSearchRetriever as WebSearchRetriever,
    )
    from fitrag_integrations.llama_index.routers.corrective import (
        CorrectiveRouterQueryEngine as CorrectiveRouterQueryEngine,
    )
    from fitrag_integrations.llama_index.routers.knowledge import (
        KnowledgeRouterQueryEngine as KnowledgeRouterQueryEngine,
    )
    from fitrag_integrations.llama_index.routers.selector import (
        KnowledgeSelector as KnowledgeSelector,
    )

_MODULE_OF = {
    "BiLabelReranker": "postprocessors",
    "CompressionEvent": "base.events",
    "CorrectiveRetriever": "retrievers.corrective",
    "CorrectiveRouterQueryEngine": "routers.corrective",
    "EncoderEmbedding": "embeddings",
    "FaissRetriever": "retrievers.faiss",
    "FitRagRetriever": "retrievers.fitrag",
    "ITRGRetriever": "retrievers.itrg",
    "KnowledgeRefiner": "postprocessors",
    "KnowledgeRouterQueryEngine": "routers.knowledge",
    "KnowledgeSelector": "routers.selector",
    "MethodQueryEngine": "method_engine",
    "MethodRetriever": "retrievers.method",
    "RetrievalSkippedEvent": "base.events",
    "RouteDecisionEvent": "base.events",
    "SlimPLMRetriever": "retrievers.slimplm",
    "SubDocumentCompressor": "postprocessors",
    "WebSearchRetriever": "retrievers.web_search",
    "cite_nodes": "base.citing",
    "numbered_nodes": "base.citing",
    "prompt": "base.prompts",
}

__all__ = list(_MODULE_OF)

__getattr__, __dir__ = lazy_names(
    __name__, _MODULE_OF, extra="llama-index", needs="llama_index.core"
)
