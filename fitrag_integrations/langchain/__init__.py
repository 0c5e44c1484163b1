"""FIT-RAG and its relatives as LangChain compressors, retrievers and runnables.

Names load on first use; without langchain-core that raises ``MissingExtraError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import installed, lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.langchain.citing import cite_documents, numbered_documents
    from fitrag_integrations.langchain.compressors.cross_encoder import BiLabelCrossEncoder
    from fitrag_integrations.langchain.compressors.refiner import KnowledgeRefiner
    from fitrag_integrations.langchain.compressors.reranker import BiLabelReranker
    from fitrag_integrations.langchain.compressors.sub_documents import SubDocumentCompressor
    from fitrag_integrations.langchain.embeddings import EncoderEmbeddings
    from fitrag_integrations.langchain.prompts import prompt
    from fitrag_integrations.langchain.retrievers.compressing import CompressingRetriever
    from fitrag_integrations.langchain.retrievers.corrective import CorrectiveRetriever
    from fitrag_integrations.langchain.retrievers.faiss import FaissRetriever
    from fitrag_integrations.langchain.retrievers.fitrag import FitRagRetriever
    from fitrag_integrations.langchain.retrievers.itrg import ITRGRetriever
    from fitrag_integrations.langchain.retrievers.method import MethodRetriever
    from fitrag_integrations.langchain.retrievers.slimplm import SlimPLMRetriever
    from fitrag_integrations.langchain.retrievers.web_search import WebSearchRetriever
    from fitrag_integrations.langchain.routers.corrective import CorrectiveRouter
    from fitrag_integrations.langchain.routers.gate import RetrievalGate
    from fitrag_integrations.langchain.routers.judge import RetrievalJudge
    from fitrag_integrations.langchain.routers.knowledge import KnowledgeRouter
    from fitrag_integrations.langchain.routers.middleware import RetrievalGateMiddleware
    from fitrag_integrations.langchain.tracing import TraceHandler
    from fitrag_integrations.langchain.whole.answer import Answer
    from fitrag_integrations.langchain.whole.method_runnable import MethodRunnable

_MODULE_OF = {
    "Answer": "whole.answer",
    "BiLabelCrossEncoder": "compressors.cross_encoder",
    "BiLabelReranker": "compressors.reranker",
    "CompressingRetriever": "retrievers.compressing",
    "CorrectiveRetriever": "retrievers.corrective",
    "CorrectiveRouter": "routers.corrective",
    "EncoderEmbeddings": "embeddings",
    "FaissRetriever": "retrievers.faiss",
    "FitRagRetriever": "retrievers.fitrag",
    "ITRGRetriever": "retrievers.itrg",
    "KnowledgeRefiner": "compressors.refiner",
    "KnowledgeRouter": "routers.knowledge",
    "MethodRetriever": "retrievers.method",
    "MethodRunnable": "whole.method_runnable",
    "RetrievalGate": "routers.gate",
    "RetrievalGateMiddleware": "routers.middleware",
    "RetrievalJudge": "routers.judge",
    "SlimPLMRetriever": "retrievers.slimplm",
    "SubDocumentCompressor": "compressors.sub_documents",
    "TraceHandler": "tracing",
    "WebSearchRetriever": "retrievers.web_search",
    "cite_documents": "citing",
    "numbered_documents": "citing",
    "prompt": "prompts",
}
_SINCE_CORE_1_8 = {  # older cores lack the base
    "DecisionEvaluator": "routers.decision_model",
    "DecisionGate": "routers.decision_model",
    "KnowledgeDecision": "routers.decision_model",
    "RelevanceDecision": "routers.decision_model",
}
_NEEDED = {
    **dict.fromkeys(_MODULE_OF, "langchain_core"),
    **dict.fromkeys(_SINCE_CORE_1_8, "langchain_core.decisions"),
    "RetrievalGateMiddleware": "langchain.agents",
}
"""What has to be installed for a name; ``dir`` and ``help`` leave out what is not to be had."""

__all__ = [
    "Answer",
    "BiLabelCrossEncoder",
    "BiLabelReranker",
    "CompressingRetriever",
    "CorrectiveRetriever",
    "CorrectiveRouter",
    "EncoderEmbeddings",
    "FaissRetriever",
    "FitRagRetriever",
    "ITRGRetriever",
    "KnowledgeRefiner",
    "KnowledgeRouter",
    "MethodRetriever",
    "MethodRunnable",
    "RetrievalGate",
    "RetrievalGateMiddleware",
    "RetrievalJudge",
    "SlimPLMRetriever",
    "SubDocumentCompressor",
    "TraceHandler",
    "WebSearchRetriever",
    "cite_documents",
    "numbered_documents",
    "prompt",
]

__getattr__, _names = lazy_names(
    __name__, _MODULE_OF | _SINCE_CORE_1_8, extra="langchain", needs="langchain_core"
)


def __dir__() -> list[str]:
    return [name for name in _names() if name not in _NEEDED or installed(_NEEDED[name])]
