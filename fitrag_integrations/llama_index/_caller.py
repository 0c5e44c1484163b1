"""What one caller brings: a retriever, perhaps a search and a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.schema import QueryBundle, QueryType

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Traced
from fitrag_integrations.llama_index._llm import generate_port
from fitrag_integrations.llama_index._ports import check_base, retrieve_port
from fitrag_integrations.llama_index._search import search_port
from fitrag_integrations.ports import Ports


@dataclass(frozen=True)
class Caller:
    """Hold what the ports of each call are built from, and check it."""

    base: Any
    search: Any = None
    llm: Any = None

    def __post_init__(self) -> None:
        check_base(self.base)
        if self.search is not None:
            search_port(self.search)
        if self.llm is not None:
            generate_port(self.llm)

    def ports(self, bundles: Sequence[QueryBundle], *, llm: Any = None) -> Ports:
        """Build the ports of one call, so that its questions share them.

        ``llm`` stands in where the caller has none.
        """
        chosen = llm if self.llm is None else self.llm
        return Ports(
            retrieve=retrieve_port(self.base, bundles),
            search=None if self.search is None else search_port(self.search),
            generate=None if chosen is None else generate_port(chosen),
        )


def bundles_of(queries: Sequence[QueryType]) -> list[QueryBundle]:
    """Make a bundle of each query."""
    if isinstance(queries, str | QueryBundle):
        raise InputError.of("queries", given=queries, allowed="a sequence of queries")
    return [bundle_of(query) for query in queries]


def bundle_of(query: QueryType) -> QueryBundle:
    """Make a bundle of a query; a bundle passes through."""
    if isinstance(query, QueryBundle):
        return query
    if not isinstance(query, str):
        raise InputError.of("query", given=query, allowed="a string or a QueryBundle")
    return QueryBundle(query)


def settled(traces: Sequence[Traced[Any]], return_exceptions: bool) -> list[Any]:
    """Give each question's value, or error; without ``return_exceptions`` raise the first one."""
    return [traced.outcome if return_exceptions else traced.value for traced in traces]
