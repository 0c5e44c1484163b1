"""Retrieve from the web, by whatever searches it (CRAG, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import NodeWithScore

from fitrag_integrations.core.show import name_of
from fitrag_integrations.llama_index.base.convert import web_node
from fitrag_integrations.llama_index.base.ports import Caller, search_port
from fitrag_integrations.llama_index.base.retriever import FlowRetriever
from fitrag_integrations.methods.crag.search import WebSearching
from fitrag_integrations.ports import Missing
from fitrag_integrations.types import Context


@dataclass(eq=False, repr=False, kw_only=True)
class WebSearchRetriever(FlowRetriever):
    """Retriever of web search results, marked as untrusted, in the order of the search.

    Nodes have ``url``, ``web`` and ``trust`` in their metadata, and a score only if the search
    returned a ``retrieval_score``. A search that fails raises its error; one without results
    returns no nodes.

    Args:
        search: Search provider, such as ``fitrag_integrations.web.WebSearch``, tool, retriever, or
            function of a query.
        rewrite: Search for keywords, as CRAG does, instead of the question.
        llm: Language model that writes the keywords; None searches for the question itself.

    Example:
        >>> search = WebSearch(SearxngSearch("https://search.example"))
        >>> WebSearchRetriever(search).retrieve("Who designed the bridge?")
    """

    search: Any = field(kw_only=False)
    rewrite: bool = False
    llm: Any = None

    def _prepare(self) -> None:
        search_port(self.search)  # rejects a wrong one, None included
        method = WebSearching(self.rewrite)
        self._caller = Caller(Missing("retrieve", None), self.search, self.llm)  # the web is all
        self._method = method

    def __repr__(self) -> str:
        return f"{type(self).__name__}(search={name_of(self.search)})"

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Write what was found as nodes."""
        return [web_node(excerpt.passage, context.method) for excerpt in context.excerpts]
