"""Use any method of this package, or one of your own, as a retriever."""

from __future__ import annotations

from typing import Any, cast

from fitrag_integrations.langchain.base.fields import Kept
from fitrag_integrations.langchain.base.retriever import Searching
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.ports import Method


class MethodRetriever(FromFitted, Searching):
    """Retriever of the excerpts that ``method`` keeps from the documents of ``base``.

    Example:
        >>> MethodRetriever(base=store.as_retriever(), method=FitRag(top_n=5)).invoke("Who?")
    """

    method: Kept[Any]
    """Method of this package or of your own: `method(question, ports)` returns the flow that ends
    in a context."""

    def method_now(self, **options: object) -> Method:
        """Return the method."""
        return cast(Method, self.method)
