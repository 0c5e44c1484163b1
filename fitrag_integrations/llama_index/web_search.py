"""Retrieve from the web, by whatever searches it (CRAG, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore

from fitrag_integrations._checks import check_is, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.llama_index._convert import web_node
from fitrag_integrations.llama_index._search import search_port
from fitrag_integrations.llama_index.retrieve import MethodRetriever
from fitrag_integrations.methods.adapting import name_of
from fitrag_integrations.methods.searching import search_web
from fitrag_integrations.ports import Missing, Ports
from fitrag_integrations.types import Context, Excerpt


class WebSearchRetriever(MethodRetriever):
    """Give what a web search finds, marked as untrusted, in its order.

    ``search`` is a provider, such as ``fitrag_integrations.web.WebSearch``, a tool, a retriever,
    or a function from a query to results. With ``rewrite`` it is asked for keywords, by ``llm``
    where there is one, else for the question itself. Nodes carry ``url``, ``web`` and ``trust``,
    and in ``fitrag`` the query and what there is to note; they have a score only where the search
    gave a ``retrieval_score``. A search that fails raises; one that finds nothing gives no nodes.
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
        super().__init__(
            Missing("retrieve", None),  # type: ignore[arg-type]  # the web is all there is
            method=_Searching(check_is("rewrite", rewrite, bool)),
            search=search,
            llm=llm,
            callback_manager=callback_manager,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(search={name_of(self._caller.search)})"

    def _nodes(self, context: Context) -> list[NodeWithScore]:
        told = {
            "method": context.method,
            "queries": context.queries,
            **context.details,
            "notes": context.notes,
        }
        return [web_node(excerpt.passage, told) for excerpt in context.excerpts]


@dataclass(frozen=True)
class _Searching:
    """Search the web and keep all it gives, whole."""

    rewrite: bool

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        check_text("question", question, blank=False)
        found = yield from search_web(question, ports, rewriting=self.rewrite, on_error="raise")
        return Context(
            question,
            tuple(map(Excerpt.whole, found.passages)),
            queries=found.queries,
            notes=found.notes,
            method="web_search",
            details=found.details,
        )
