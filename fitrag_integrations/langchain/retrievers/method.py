"""Use any method of this package, or one of your own, as a retriever."""

from __future__ import annotations

from typing import cast

from pydantic import Field

from fitrag_integrations.langchain.base.fields import AnyModel
from fitrag_integrations.langchain.base.retriever import Searching
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.ports import Method


class MethodRetriever(FromFitted, Searching):
    """Retriever of the excerpts that ``method`` keeps from the documents of ``base``.

    Args:
        base: Retriever to query: any Runnable or callable.
        method: Method of this package or of your own: ``method(question, ports)`` returns a flow.
        search: Search tool, provider, Runnable or callable, for a method that searches the web.
        llm: Language model, for a method that writes.
        k: Maximum number of documents; None is no limit.
        ids: "pieces" for ids of their own, "source" for those of the documents.

    Example:
        >>> MethodRetriever(base=store.as_retriever(), method=FitRag(top_n=5)).invoke("Who?")
    """

    method: AnyModel = Field(
        description="Method: `method(question, ports)` returns the flow that ends in a context."
    )

    def method_now(self, **options: object) -> Method:
        """Return the method."""
        return cast(Method, self.method)
