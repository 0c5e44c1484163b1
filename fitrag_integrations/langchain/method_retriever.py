"""Use any method of this package, or one of your own, as a retriever."""

from __future__ import annotations

from typing import cast

from pydantic import Field

from fitrag_integrations.langchain._fields import AnyMethod, AnyRunnable, AnySearch
from fitrag_integrations.langchain._ports import Offer
from fitrag_integrations.langchain._retriever import MethodOverBase
from fitrag_integrations.ports import Method


class MethodRetriever(MethodOverBase):
    """Give the excerpts ``method`` keeps of what ``base`` finds.

    ::

        MethodRetriever(base=vectorstore.as_retriever(), method=FitRag(top_n=5))
    """

    method: AnyMethod
    """A method: ``method(question, ports)`` gives the flow that ends in a context."""

    search: AnySearch = None
    """A search tool, provider or callable, for a method that searches the web."""

    llm: AnyRunnable | None = Field(default=None, exclude=True)
    """A language model or chain, for a method that has one write."""

    def method_now(self) -> Method:
        """Give the method."""
        return cast(Method, self.method)

    def offer(self) -> Offer:
        """Give the I/O the method may ask for."""
        return Offer.of(self.base, self.search, self.llm)
