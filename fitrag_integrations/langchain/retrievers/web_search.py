"""Retrieve from the web, by whatever searches it (CRAG, section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.convert import passage_document
from fitrag_integrations.langchain.base.fields import AnyRunnable, Kept
from fitrag_integrations.langchain.base.ports import Offer
from fitrag_integrations.langchain.base.retriever import FlowRetriever
from fitrag_integrations.methods.crag.search import WebSearching
from fitrag_integrations.types import Context


class WebSearchRetriever(FlowRetriever):
    """Retriever of web search results, marked as untrusted, in the order of the search.

    Documents carry ``url``, ``web`` and ``trust``; the ``context`` of the result has the query and
    the notes. A search that fails raises its error; one without results returns no documents.

    Example:
        >>> search = WebSearch(SearxngSearch("https://search.example"), pages=PageReader())
        >>> WebSearchRetriever(search=search).invoke("Who designed the bridge?")
    """

    search: Kept[Any]
    """Search tool, provider, Runnable or callable."""
    rewrite: bool = False
    """Whether to search for keywords, as CRAG does, instead of the question."""
    llm: Kept[AnyRunnable | None] = None
    """Language model that writes the keywords; None extracts them from the question."""

    def documents(self, context: Context) -> list[Document]:
        """Return what was found, marked as what it is."""
        found = (passage_document(excerpt.passage) for excerpt in context.excerpts)
        return [
            each.model_copy(update={"metadata": {**each.metadata, "fitrag": context.method}})
            for each in found
        ]

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; the searches of one call are one.

        Args:
            inputs: The questions.
            configs: The config of each call, in the same order.
            **options: `k`, the maximum number of documents returned.
        """
        offer, method = Offer.of(search=self.search, llm=self.llm), WebSearching(self.rewrite)
        pairs = zip(inputs, configs, strict=True)
        return [method(query, offer.to(config)) for query, config in pairs]
