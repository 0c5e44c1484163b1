"""FIT-RAG and its relatives as LangChain compressors, retrievers and runnables.

Names load on first use; without langchain-core that raises ``MissingExtraError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import installed, lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.langchain.compressors import (
        BiLabelCrossEncoder as BiLabelCrossEncoder,
    )
    from fitrag_integrations.langchain.compressors import (
        BiLabelReranker as BiLabelReranker,
    )
    from fitrag_integrations.langchain.compressors import (
        KnowledgeRefiner as KnowledgeRefiner,
    )
    from fitrag_integrations.langchain.compressors import (
        SubDocumentCompressor as SubDocumentCompressor,
    )
    from fitrag_integrations.langchain.embeddings import EncoderEmbeddings as EncoderEmbeddings
    from fitrag_integrations.langchain.method_runnable import Answer as Answer
    from fitrag_integrations.langchain.method_runnable import MethodRunnable as MethodRunnable
    from fitrag_integrations.langchain.middleware import (
        RetrievalGateMiddleware as RetrievalGateMiddleware,
    )
    from fitrag_integrations.langchain.prompts import cite_documents as cite_documents
    from fitrag_integrations.langchain.prompts import numbered_documents as numbered_documents
    from fitrag_integrations.langchain.prompts import prompt as prompt
    from fitrag_integrations.langchain.retrievers import (
        CompressingRetriever as CompressingRetriever,
    )
    from fitrag_integrations.langchain.retrievers import (
        CorrectiveRetriever as CorrectiveRetriever,
    )
    from fitrag_integrations.langchain.retrievers import FaissRetriever as FaissRetriever
    from fitrag_integrations.langchain.retrievers import FitRagRetriever as FitRagRetriever
    from fitrag_integrations.langchain.retrievers import ITRGRetriever as ITRGRetriever
    from fitrag_integrations.langchain.retrievers import MethodRetriever as MethodRetriever
    from fitrag_integrations.langchain.retrievers import (
        SlimPLMRetriever as SlimPLMRetriever,
    )
    from fitrag_integrations.langchain.retrievers import (
        WebSearchRetriever as WebSearchRetriever,
    )
    from fitrag_integrations.langchain.routers import (
        CorrectiveRouter as CorrectiveRouter,
    )
    from fitrag_integrations.langchain.routers import (
        DecisionEvaluator as DecisionEvaluator,
    )
    from fitrag_integrations.langchain.routers import (
        DecisionGate as DecisionGate,
    )
    from fitrag_integrations.langchain.routers import KnowledgeRouter as KnowledgeRouter
    from fitrag_integrations.langchain.routers import RetrievalGate as RetrievalGate
    from fitrag_integrations.langchain.routers import RetrievalJudge as RetrievalJudge

__all__, __getattr__, _names = lazy_names(
    __name__,
    {
        "Answer": "method_runnable",
        "BiLabelCrossEncoder": "compressors",
        "BiLabelReranker": "compressors",
        "CompressingRetriever": "retrievers",
        "CorrectiveRetriever": "retrievers",
        "CorrectiveRouter": "routers",
        "DecisionEvaluator": "routers",
        "DecisionGate": "routers",
        "EncoderEmbeddings": "embeddings",
        "FaissRetriever": "retrievers",
        "FitRagRetriever": "retrievers",
        "ITRGRetriever": "retrievers",
        "KnowledgeRefiner": "compressors",
        "KnowledgeRouter": "routers",
        "MethodRetriever": "retrievers",
        "MethodRunnable": "method_runnable",
        "RetrievalGate": "routers",
        "RetrievalGateMiddleware": "middleware",
        "RetrievalJudge": "routers",
        "SlimPLMRetriever": "retrievers",
        "SubDocumentCompressor": "compressors",
        "WebSearchRetriever": "retrievers",
        "cite_documents": "prompts",
        "numbered_documents": "prompts",
        "prompt": "prompts",
    },
    extra="langchain",
    needs="langchain_core",
)


def __dir__() -> list[str]:
    """Return the names whose packages are installed."""
    needed = dict.fromkeys(__all__, "langchain_core")
    needed["RetrievalGateMiddleware"] = "langchain.agents"
    return [name for name in _names() if name not in needed or installed(needed[name])]
