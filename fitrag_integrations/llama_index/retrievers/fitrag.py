"""Retrieve as FIT-RAG does: score, decide, rerank, reduce (FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import FitRagOptions


class FitRagRetriever(FitRagOptions):
    """Rerank and reduce what a retriever finds, or skip it where the model knows (FIT-RAG).

    Give ``base`` a generous number of results, a hundred in the paper. ``scorer`` None is the
    embedded one. The options are those of ``fitrag_integrations.methods.FitRag``.
    """
