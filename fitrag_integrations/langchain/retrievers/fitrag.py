"""Retrieve as FIT-RAG does: score, decide, rerank, reduce (FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from fitrag_integrations.langchain.base.fields import Kept, ReducerOptions
from fitrag_integrations.langchain.base.retriever import MethodOverBase
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.fitrag.method import FitRag
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Gate, Method, Recognizer


class FitRagRetriever(FromFitted, ReducerOptions, MethodOverBase):
    """Retriever that keeps the sentences that answer, within a token budget (FIT-RAG).

    It scores and reranks what ``base`` returns and reduces it to its best sentences. It returns
    nothing if ``gate`` finds that the model knows the answer. With ``k`` it returns the best piece
    of each of up to ``k`` documents; options that would stop earlier then apply only if they are
    set.

    Example:
        >>> base = store.as_retriever(search_kwargs={"k": 100})
        >>> found = FitRagRetriever(base=base, max_tokens=800).invoke("Who designed the bridge?")
        >>> print(found.explain())
    """

    made: ClassVar[type[FitRag]] = FitRag

    gate: Kept[Gate | Recognizer | Decider | None] = None
    """A `Recognizer`, called with the scores of all retrieved documents as in the paper; or a
    `Gate` or `Decider`, called before anything is retrieved: a question that is known is not
    retrieved for. None always retrieves."""

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
