"""Make a search provider of a framework's tool or of a function, without knowing the framework."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import iscoroutinefunction
from typing import Any

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.web.search.calls import aspread, spread, waited


@dataclass(frozen=True)
class ToolProvider:
    """Ask a tool once per query, up to ``at_once`` at a time.

    ``tool`` has ``invoke`` and perhaps ``ainvoke`` (a LangChain tool, retriever or chain), or is
    called with the query and has ``metadata`` and perhaps ``acall`` (a LlamaIndex tool), or is a
    function or coroutine function of one query. What has an async side is awaited; everything
    else runs in threads of its own. The answer to a query is what the tool gave or raised.
    """

    tool: object
    _: KW_ONLY
    at_once: int = 16

    def __post_init__(self) -> None:
        check_whole("at_once", self.at_once, low=1)
        _calls_of(self.tool)

    @property
    def name(self) -> str:
        """Give the tool's own name, or that of its function or class."""
        for holder in (self.tool, getattr(self.tool, "metadata", None)):
            name = getattr(holder, "name", None)
            if isinstance(name, str) and name:
                return name
        return str(getattr(self.tool, "__qualname__", type(self.tool).__name__))

    def hits(self, queries: Sequence[str], /) -> list[Any]:
        """Ask for each query."""
        return waited(lambda: self.ahits(queries))

    async def ahits(self, queries: Sequence[str], /) -> list[Any]:
        """Ask for each query, without blocking the event loop."""
        call, acall = _calls_of(self.tool)
        if acall is not None:
            return await aspread(acall, queries, self.at_once)
        return await asyncio.to_thread(spread, call, queries, self.at_once)


def _calls_of(tool: Any) -> tuple[Callable[[str], Any], Callable[[str], Any] | None]:
    """Give the plain call, used where there is no async one, and the async one."""
    if not isinstance(tool, type):
        if callable(getattr(tool, "invoke", None)):
            return tool.invoke, getattr(tool, "ainvoke", None)
        if callable(tool):
            if iscoroutinefunction(tool) or iscoroutinefunction(getattr(tool, "__call__", None)):  # noqa: B004
                return tool, tool
            return tool, getattr(tool, "acall", None)
    allowed = "a tool with 'invoke', a LlamaIndex tool, or a function of one query"
    raise InputError.of("tool", given=tool, allowed=allowed)
