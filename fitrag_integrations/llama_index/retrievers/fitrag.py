"""Retrieve as FIT-RAG does: score, decide, rerank, reduce (FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import FitRagOptions


class FitRagRetriever(FitRagOptions):
    """Retriever that keeps the sentences that answer, within a token budget (FIT-RAG).

    It returns an empty list if ``gate`` finds that the model knows the answer.

    Args:
        base: Retriever of candidates, a hundred in the paper.

    The other options are those of ``fitrag_integrations.methods.FitRag``.

    Example:
        >>> retriever = FitRagRetriever(index.as_retriever(similarity_top_k=100), max_tokens=800)
        >>> nodes = retriever.retrieve("Who designed the bridge?")
        >>> print(retriever.explain())
    """
