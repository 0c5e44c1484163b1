"""`fitrag serve --mcp`: the models as tools of the Model Context Protocol, over stdio."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, TypeAlias

from pydantic import Field, ValidationError

from fitrag_integrations.commands.engine.models import passage_json
from fitrag_integrations.commands.serve.door import Crowd, Metrics, Refusal, Settings
from fitrag_integrations.commands.serve.service import CompressRow, Rerank, Row, Service, wrong
from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import FitRagError, refuse_if
from fitrag_integrations.ports import Retriever

Found: TypeAlias = dict[str, Any]
Texts: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
"""Of a million wrong texts, pydantic would tell an agent each."""
Tool: TypeAlias = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools over the models of a service, with its limits. An agent reads their docstrings.

    Args:
        service: Service whose models are loaded.
        retriever: What `retrieve` searches; without one, there is no such tool.
    """

    service: Service
    retriever: Retriever | None = None

    async def retrieve(self, query: str, k: int = DEFAULTS.k) -> list[Found]:
        """Search the index. Returns the k best passages, each with id, title, text and score."""
        assert self.retriever is not None
        check_text("query", query, blank=False)
        (found,) = await asyncio.to_thread(self.retriever.retrieve, [query])
        return [dict(passage_json(each)) for each in found[: check_whole("k", k, low=1)]]

    async def rerank(self, query: str, documents: Texts, top_n: int = 5) -> list[Found]:
        """Rank documents by whether they answer a query, best first. Returns the index of each in
        the list given, its relevance from 0 to 1, and its text.
        """
        asked = {"query": query, "documents": documents, "top_n": top_n}
        found = await self.service.rerank(Rerank.model_validate(asked))
        return [
            {"index": one.index, "relevance": one.relevance, "text": one.text}
            | ({"reason": one.reason} if one.reason else {})
            for one in found
        ]

    async def compress(
        self, question: str, documents: Texts, max_tokens: int | None = None
    ) -> Found:
        """Keep the sentences of documents that help to answer a question, word for word, in at most
        max_tokens tokens if given. Returns excerpts, each with its document (`passage`, from 0),
        `start`, `end`, score and text.
        """
        return await self._row("compress", CompressRow, question, documents, max_tokens=max_tokens)

    async def grade(self, question: str, documents: Texts) -> Found:
        """Judge whether documents answer a question. Returns the action "correct" (use them),
        "incorrect" (search elsewhere) or "ambiguous" (do both), and each document's grade from -1
        to 1.
        """
        return await self._row("route", Row, question, documents)

    async def _row(
        self, verb: str, shape: type[Row], question: str, documents: list[str], **more: object
    ) -> Found:
        row = {"question": question, "passages": [{"text": text} for text in documents], **more}
        return await self.service.row(verb, shape.model_validate(row).model_dump())

    def offered(self) -> list[Tool]:
        """Return the tools."""
        searching = [self.retrieve] if self.retriever is not None else []
        return [*searching, self.rerank, self.compress, self.grade]


def serve_tools(settings: Settings, retriever: Retriever | None = None) -> None:
    """Load the models and offer them as tools until the client closes the stream.

    Args:
        settings: Models and limits.
        retriever: What the tool `retrieve` searches.

    Raises:
        MissingExtraError: If the official SDK is not installed.
    """
    require_extra("mcp", extra="mcp", feature="fitrag serve --mcp")
    new = importlib.util.find_spec("mcp.server.mcpserver") is not None  # as of version 2
    sdk = importlib.import_module("mcp.server.mcpserver" if new else "mcp.server.fastmcp")
    refused = importlib.import_module(f"{sdk.__name__}.exceptions").ToolError
    metrics = Metrics()
    service, crowd = Service(settings, metrics), Crowd(settings, metrics)
    service.load()

    def answering(tool: Tool) -> Tool:
        @wraps(tool)
        async def answer(*args: Any, **named: Any) -> Any:
            try:
                size, most = len(json.dumps([args, named])), settings.payload
                refuse_if(size > most, "arguments", f"{size} bytes", f"at most {most}")
                async with crowd.place():
                    return await tool(*args, **named)
            except ValidationError as error:
                raise refused(wrong(error)) from error
            except (FitRagError, Refusal) as error:  # the SDK hides the text of others
                raise refused(str(error)) from error

        return answer

    server = (sdk.MCPServer if new else sdk.FastMCP)("fitrag", log_level="WARNING")
    for tool in Tools(service, retriever).offered():
        server.add_tool(answering(tool), description=inspect.getdoc(tool))
    try:
        server.run("stdio")
    finally:
        service.stop()
