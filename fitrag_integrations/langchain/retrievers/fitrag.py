"""Retrieve as FIT-RAG does: score, decide, rerank, reduce (FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fitrag_integrations.langchain.base.options import FitRagOptions
from fitrag_integrations.langchain.base.retriever import DerivedRetriever
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.fitrag.method import FitRag
from fitrag_integrations.ports import Method


class FitRagRetriever(FromFitted, FitRagOptions, DerivedRetriever):
    """Retriever that reranks what ``base`` returns and keeps the best sentences within a token
    budget.

    ::

        FitRagRetriever(base=store.as_retriever(search_kwargs={"k": 100}), max_tokens=800)

    It gives nothing where ``gate`` finds that the model knows the answer by itself. Whoever asks
    for ``k`` documents gets as many, where there are: what is best in each of the best documents,
    one piece of each. The options that would stop earlier hold only where they are set.
    """

    def method_now(self, **options: Any) -> Method:
        """Return FIT-RAG with the fields as they are at this call."""
        method = FitRag(**self.settings())
        if self.most(**options) is None:
            return method
        freed: dict[str, tuple[object, object]] = {
            "detector": (None, False),
            "per_passage": ("auto", 1),
            "max_share": ("auto", None),
        }
        changed: dict[str, Any] = {
            name: instead
            for name, (default, instead) in freed.items()
            if getattr(method, name) == default
        }
        return replace(method, **changed)
