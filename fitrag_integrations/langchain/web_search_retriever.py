"""Retrieve from the web, by whatever searches it (CRAG, section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from pydantic import Field, field_validator

from fitrag_integrations._checks import check_text, check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain._convert import passage_document
from fitrag_integrations.langchain._fields import AnyRunnable, AnySearch, Count
from fitrag_integrations.langchain._ports import Offer
from fitrag_integrations.langchain._retriever import FlowRetriever
from fitrag_integrations.methods.searching import Searched, search_web
from fitrag_integrations.ports import Ports


class WebSearchRetriever(FlowRetriever):
    """Give what a web search finds, marked as untrusted, in its order.

    ::

        WebSearchRetriever(search=WebSearch(SearxngSearch("https://..."), pages=PageReader()))

    Documents carry ``url``, ``web`` and ``trust``, and in ``fitrag`` the query and what there is to
    note. A search that fails raises; one that finds nothing gives no documents.
    """

    search: AnySearch
    """A search tool, provider, Runnable or callable."""

    rewrite: bool = False
    """Search for keywords, as CRAG does; otherwise for the question itself."""

    llm: AnyRunnable | None = Field(default=None, exclude=True)
    """A language model that writes the keywords; None takes them from the question."""

    k: Count | None = None
    """Documents to give at most, the first ones; also an argument of ``invoke``."""

    @field_validator("search")
    @classmethod
    def _check_search(cls, search: Any) -> Any:
        if search is None:
            raise InputError.of("search", given=None, allowed="a search tool, provider or callable")
        return search

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[list[Document]]]:
        """Give one flow per question; the searches of one call are one."""
        offer = Offer.of(search=self.search, llm=self.llm)
        pairs = zip(inputs, configs, strict=True)
        return [self._flow(query, offer.to(config), **options) for query, config in pairs]

    def _flow(self, query: str, ports: Ports, k: int | None = None) -> Flow[list[Document]]:
        most = self.k if k is None else check_whole("k", k, low=1)
        question = check_text("query", query, blank=False)
        searched = yield from search_web(question, ports, rewriting=self.rewrite, on_error="raise")
        return _documents(searched)[:most]


def _documents(searched: Searched) -> list[Document]:
    about = {
        "method": "web_search",
        "queries": list(searched.queries),
        **searched.details,
        "notes": list(searched.notes),
    }
    documents = map(passage_document, searched.passages)
    return [
        each.model_copy(update={"metadata": {**each.metadata, "fitrag": {**about}}})
        for each in documents
    ]
