"""FIT-RAG and its relatives as LangChain compressors, retrievers and runnables.

Names load on first use; without langchain-core that raises ``MissingExtraError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations._lazy import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.langchain.answer import Answer
    from fitrag_integrations.langchain.compressing_retriever import CompressingRetriever
    from fitrag_integrations.langchain.cross_encoder import BiLabelCrossEncoder
    from fitrag_integrations.langchain.faiss_retriever import FaissRetriever
    from fitrag_integrations.langchain.fitrag_retriever import FitRagRetriever
    from fitrag_integrations.langchain.method_retriever import MethodRetriever
    from fitrag_integrations.langchain.method_runnable import MethodRunnable
    from fitrag_integrations.langchain.reranker import BiLabelReranker
    from fitrag_integrations.langchain.sub_documents import SubDocumentCompressor

_MODULE_OF = {
    "Answer": "answer",
    "BiLabelCrossEncoder": "cross_encoder",
    "BiLabelReranker": "reranker",
    "CompressingRetriever": "compressing_retriever",
    "FaissRetriever": "faiss_retriever",
    "FitRagRetriever": "fitrag_retriever",
    "MethodRetriever": "method_retriever",
    "MethodRunnable": "method_runnable",
    "SubDocumentCompressor": "sub_documents",
}

__all__ = [
    "Answer",
    "BiLabelCrossEncoder",
    "BiLabelReranker",
    "CompressingRetriever",
    "FaissRetriever",
    "FitRagRetriever",
    "MethodRetriever",
    "MethodRunnable",
    "SubDocumentCompressor",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF, extra="langchain", needs="langchain_core")
