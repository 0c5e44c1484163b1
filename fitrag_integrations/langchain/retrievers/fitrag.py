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
    """Retriever that keeps the sentences that answer, within a token budget (FIT-RAG).

    It scores and reranks what ``base`` returns and reduces it to its best sentences. It returns
    nothing if ``gate`` finds that the model knows the answer. With ``k`` it returns the best piece
    of each of up to ``k`` documents; options that would stop earlier then apply only if they are
    set.

    Args:
        base: Retriever of candidates, a hundred in the paper: any Runnable or callable.
        k: Maximum number of documents; None is no limit.
        ids: "pieces" for ids of their own, "source" for those of the documents.

    The other options are those of ``fitrag_integrations.methods.FitRag``.

    Example:
        >>> base = store.as_retriever(search_kwargs={"k": 100})
        >>> found = FitRagRetriever(base=base, max_tokens=800).invoke("Who designed the bridge?")
        >>> print(found.explain())
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
