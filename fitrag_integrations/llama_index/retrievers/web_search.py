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

    ``search`` is a provider, such as ``fitrag_integrations.web.WebSearch``, a tool, a retriever, or
    a function from a query to results. With ``rewrite`` it is asked for keywords, by ``llm`` where
    there is one, else for the question itself. Nodes carry ``url``, ``web`` and ``trust``; they
    have a score only where the search gave a ``retrieval_score``. A search that fails raises; one
    that finds nothing gives no nodes.
    """

    def __init__(
        self,
        search: Any,
        *,
        rewrite: bool = False,
        llm: Any = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        search_port(search)  # tells of a wrong one, None among them
        caller = Caller(Missing("retrieve", None), search, llm)  # the web is all there is
        super().__init__(caller, WebSearching(rewrite), callback_manager=callback_manager)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(search={name_of(self._caller.search)})"

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Write what was found as nodes."""
        return [web_node(excerpt.passage, context.method) for excerpt in context.excerpts]
