"""Accept what people search the web with: providers, tools, retrievers, plain functions."""

from __future__ import annotations

import asyncio
from inspect import iscoroutinefunction
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.tools import AsyncBaseTool, BaseTool, ToolOutput

from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index._convert import passages_of
from fitrag_integrations.llama_index._ports import aeach, each, retrieve_port
from fitrag_integrations.methods.adapting import pages_of
from fitrag_integrations.ports import port_of
from fitrag_integrations.types import Passage


def search_port(search: Any) -> Port[str, Any]:
    """Build the search port.

    Takes a ``Port``, a retriever, a tool, an object with a batched ``search(queries)``, or a
    function from one query to what ``results`` reads.
    """
    if isinstance(search, BaseRetriever):
        return retrieve_port(search, name="search")
    if isinstance(search, BaseTool):
        return _tool_port(search)
    if isinstance(search, Port | type) or hasattr(search, "search") or not callable(search):
        return port_of("search", search, "search")
    if iscoroutinefunction(search):
        return Port("search", None, aeach(_then_results(search)))
    return Port("search", each(lambda query: results(search(query))))


def _tool_port(tool: BaseTool) -> Port[str, Any]:
    async def aone(query: str) -> list[Passage]:
        if isinstance(tool, AsyncBaseTool):
            return results(await tool.acall(query))
        return results(await asyncio.to_thread(tool, query))

    return Port("search", each(lambda query: results(tool(query))), aeach(aone))


def _then_results(search: Any) -> Any:
    async def one(query: str) -> list[Passage]:
        return results(await search(query))

    return one


def results(found: Any) -> list[Passage]:
    """Read what ``pages_of`` reads, nodes among it; a tool that reports an error raises it."""
    if isinstance(found, ToolOutput):
        if found.is_error:
            raise PortError(f"the search tool {found.tool_name!r} failed: {found.content}")
        return results(found.content if found.raw_output is None else found.raw_output)
    return pages_of(found, (NodeWithScore, BaseNode), _node_page)


def _node_page(node: NodeWithScore | BaseNode) -> Passage:
    return passages_of([node if isinstance(node, NodeWithScore) else NodeWithScore(node=node)])[0]
