"""Retrieve from the web, by whatever searches it (CRAG, section 4.5)."""

from __future__ import annotations

from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore

from fitrag_integrations.llama_index.base.convert import web_node
from fitrag_integrations.llama_index.base.ports import Caller, search_port
from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.methods.adapting import name_of
from fitrag_integrations.methods.crag.search import WebSearching
from fitrag_integrations.ports import Missing
from fitrag_integrations.types import Context


class WebSearchRetriever(MethodOverBase):
    """Retriever of web search results, marked as untrusted, in the order of the search.

    Nodes have ``url``, ``web`` and ``trust`` in their metadata, and a score only if the search
    returned a ``retrieval_score``. A search that fails raises its error; one without results
    returns no nodes.

    Args:
        search: Search provider, such as ``fitrag_integrations.web.WebSearch``, tool, retriever, or
            function of a query.
        rewrite: Search for keywords, as CRAG does, instead of the question.
        llm: Language model that writes the keywords; None takes them from the question.

    Example:
        >>> search = WebSearch(SearxngSearch("https://search.example"))
        >>> WebSearchRetriever(search).retrieve("Who designed the bridge?")
    """

    def __init__(
        self,
        search: Any,
        *,
        rewrite: bool = False,
        llm: Any = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        search_port(search)  # rejects a wrong one, None included
        caller = Caller(Missing("retrieve", None), search, llm)  # the web is all there is
        super().__init__(caller, WebSearching(rewrite), callback_manager=callback_manager)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(search={name_of(self._caller.search)})"

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Write what was found as nodes."""
        return [web_node(excerpt.passage, context.method) for excerpt in context.excerpts]
