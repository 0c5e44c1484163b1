"""Accept what people search the web with: providers, tools, retrievers, plain functions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.tools import AsyncBaseTool, BaseTool, ToolOutput

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index._convert import made_id, passages_of
from fitrag_integrations.llama_index._ports import aeach, each, retrieve_port
from fitrag_integrations.ports import port_of
from fitrag_integrations.types import Passage

_TEXTS = ("snippet", "content", "text", "body")
_PLACES = ("url", "link", "href", "source")


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
    """Read passages, nodes, texts or ``{title, url, snippet}`` dicts, one or several, or JSON.

    Raises ``PortError`` for a tool that reports an error, ``InputError`` for anything else.
    """
    if isinstance(found, ToolOutput):
        if found.is_error:
            raise PortError(f"the search tool {found.tool_name!r} failed: {found.content}")
        return results(found.content if found.raw_output is None else found.raw_output)
    if isinstance(found, str):
        return results(_decoded(found))
    if not isinstance(found, Sequence):
        found = [found]
    return [_passage(item) for item in found]


def _decoded(text: str) -> Any:
    try:
        decoded = json.loads(text)
    except ValueError:
        decoded = None
    if isinstance(decoded, list | dict):
        return decoded
    return [Passage(made_id(text), text)] if text.strip() else []


def _passage(item: Any) -> Passage:
    if isinstance(item, Passage):
        return item
    if isinstance(item, NodeWithScore | BaseNode):
        scored = item if isinstance(item, NodeWithScore) else NodeWithScore(node=item)
        return passages_of([scored])[0]
    if isinstance(item, str):
        return Passage(made_id(item), item)
    if not isinstance(item, Mapping):
        allowed = "a passage, a node, a text or a dict with title, url and snippet"
        raise InputError.of("search result", given=item, allowed=allowed)
    text, place = _first(item, _TEXTS), _first(item, _PLACES)
    others = {str(key): value for key, value in item.items() if key not in _TEXTS}
    return Passage(place or made_id(text), text, _first(item, ("title",)), place, others)


def _first(item: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((str(item[key]) for key in keys if item.get(key)), "")
