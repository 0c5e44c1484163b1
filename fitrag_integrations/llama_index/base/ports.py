"""Build ports from the caller's retriever, search and language model.

Each item is a separate call, and async calls run concurrently. A failed item is answered with its
exception, which is raised only for its own question. A component without its own async methods runs
in a thread, because the framework would block the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.tools import AsyncBaseTool, BaseTool, ToolOutput
from llama_index.core.types import TokenAsyncGen

from fitrag_integrations.core.checks import check_is, trait
from fitrag_integrations.core.generic import Q
from fitrag_integrations.core.http import spread
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import PortError, raise_if, refuse_if
from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index.base.component import has_own
from fitrag_integrations.llama_index.base.convert import page_of, passages_of
from fitrag_integrations.methods.ik.decider import GateDecision, check_judged
from fitrag_integrations.ports import Ports, port_of
from fitrag_integrations.text.replies import astreamed, streamed
from fitrag_integrations.types import Passage
from fitrag_integrations.values.passage import pages_of
from fitrag_integrations.values.prompt import Shot, check_shots

AT_ONCE = 16
"""How many calls of one batch run side by side: base retrievers and services have limits."""
_WRITTEN = PromptTemplate("{text}")  # the whole prompt is the one value, so its braces stay


def retrieve_port(
    base: Any,
    bundles: Sequence[QueryBundle] = (),
    *,
    name: str = "retrieve",
    title_keys: Sequence[str] | None = None,
) -> Port[str, Any]:
    """Build the port of a retriever.

    Args:
        base: Retriever; its ``retrieve_many``, if any, gets all queries at once.
        bundles: Queries, whose embeddings are passed on.
        name: Name of the port.
        title_keys: Metadata keys of a node's title.
    """
    if isinstance(base, Port):
        return base
    known: dict[str, QueryType] = {bundle.query_str: bundle for bundle in bundles}
    many, amany = each(base.retrieve), aeach(base.aretrieve)
    if hasattr(base, "retrieve_many"):
        many = partial(base.retrieve_many, return_exceptions=True)
        amany = partial(base.aretrieve_many, return_exceptions=True)
    elif not has_own(base, "_aretrieve", BaseRetriever):
        amany = aeach(partial(asyncio.to_thread, base.retrieve))

    def asked(queries: Sequence[str]) -> list[QueryType]:
        return [known.get(query, query) for query in queries]

    def read(nodes: Any) -> object:
        return nodes if isinstance(nodes, Exception) else passages_of(nodes, title_keys)

    async def acall(queries: Sequence[str]) -> list[object]:
        return each(read)(await amany(asked(queries)))

    return Port(name, lambda queries: each(read)(many(asked(queries))), acall)


def each(call: Callable[[Q], Any]) -> Callable[[Sequence[Q]], list[object]]:
    """Call once per item; an error is the answer of its item."""

    def guarded(item: Q) -> object:
        try:
            return call(item)
        except Exception as error:  # raised in the flow that asked
            return error

    return lambda items: [guarded(item) for item in items]


def aeach(
    acall: Callable[[Q], Awaitable[Any]],
) -> Callable[[Sequence[Q]], Awaitable[list[Any]]]:
    """Await one call per item, at most ``AT_ONCE`` at a time."""
    return partial(spread, acall, at_once=AT_ONCE)


def search_port(search: object) -> Port[str, Any]:
    """Build the search port.

    Takes a ``Port``, a retriever, a tool, an object with a batched ``search(queries)``, or a
    function from one query to what ``results`` reads.
    """
    if isinstance(search, BaseRetriever):
        return retrieve_port(search, name="search")
    is_tool, is_async = isinstance(search, BaseTool), iscoroutinefunction(search)
    if not is_tool and (
        isinstance(search, Port | type) or hasattr(search, "search") or not callable(search)
    ):
        return port_of("search", search, "search")
    given: Any = search

    async def aone(query: str) -> list[Passage]:
        if is_async or isinstance(search, AsyncBaseTool):
            return results(await (given if is_async else given.acall)(query))
        return results(await asyncio.to_thread(given, query))

    call = None if is_async else each(lambda query: results(given(query)))
    return Port("search", call, aeach(aone) if is_tool or is_async else None)


def results(found: object) -> list[Passage]:
    """Read search results as ``pages_of`` does, nodes included; raises a tool's reported error."""
    if isinstance(found, ToolOutput):
        raise_if(
            found.is_error,
            PortError,
            f"the search tool {found.tool_name!r} failed: {found.content}",
        )
        return results(found.content if found.raw_output is None else found.raw_output)

    return pages_of(found, (NodeWithScore, BaseNode), page_of)


def generate_port(llm: object) -> Port[str, str]:
    """Build the port of any language model, or of anything with ``generate(prompts)``."""
    return port_of("generate", llm, "generate", argument="llm")


@dataclass(frozen=True)
class LLMDrafter:
    """Generator over a LlamaIndex LLM, under the name of its model.

    A ``BaseLLM`` that is not an ``LLM`` cannot continue a prompt and raises ``InputError``.
    """

    llm: LLM

    def __post_init__(self) -> None:
        check_is("model", self.llm, LLM, "an LLM of LlamaIndex")  # type: ignore[type-abstract]

    @property
    def name(self) -> str | None:
        """Return the model's name, which a fitted threshold is checked against."""
        name = self.llm.metadata.model_name
        return None if name == "unknown" else name  # what LlamaIndex calls one without a name

    def generate(self, prompts: Sequence[str]) -> Sequence[object]:
        """Continue each prompt; a failed prompt is answered with its exception."""
        return each(lambda prompt: self.llm.predict(_WRITTEN, text=prompt))(prompts)

    async def agenerate(self, prompts: Sequence[str]) -> Sequence[object]:
        """Continue each prompt without blocking the event loop."""
        if not blocks(self.llm):
            return await aeach(lambda prompt: self.llm.apredict(_WRITTEN, text=prompt))(prompts)
        one = partial(asyncio.to_thread, self.llm.predict, _WRITTEN)
        return await aeach(lambda prompt: one(text=prompt))(prompts)


def check_model(decider: GateDecision, llm: Any) -> None:
    """Check that a gate's threshold was fitted for the model that answers.

    Args:
        decider: Decision with its gate.
        llm: Language model; None passes.
    """
    if isinstance(llm, LLM):
        check_judged(decider, LLMDrafter(llm).name)
    elif llm is not None:
        check_judged(decider, trait(llm, "name", str))


def stream(llm: LLM, prompt: str) -> Iterator[str]:
    """Stream the continuation of a prompt, without the model's reasoning.

    Args:
        llm: Language model.
        prompt: Prompt.
    """
    return streamed(llm.stream(_WRITTEN, text=prompt))


async def astream(llm: LLM, prompt: str) -> AsyncIterator[str]:
    """Async version of `stream`."""
    if not blocks(llm):
        return astreamed(await llm.astream(_WRITTEN, text=prompt))

    async def pumped() -> TokenAsyncGen:
        context = copy_context()  # one for all threads: the framework resets its variables
        tokens = await asyncio.to_thread(lambda: context.run(stream, llm, prompt))
        while (one := await asyncio.to_thread(lambda: context.run(next, tokens, None))) is not None:
            yield one

    return pumped()


def blocks(llm: LLM) -> bool:
    """Check whether an LLM's async method is the framework's default, which calls the sync one."""
    name = "achat" if llm.metadata.is_chat_model else "acomplete"
    return isinstance(llm, CustomLLM) and not has_own(llm, name, CustomLLM)


@dataclass(frozen=True)
class Caller:
    """Parts from which the ports of each call are built, checked at construction."""

    base: object
    search: object = None
    llm: object = None
    title_keys: Sequence[str] | None = None
    shots: Iterable[Shot | Row] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shots", check_shots("shots", self.shots))
        refuse_if(
            not isinstance(self.base, BaseRetriever | Port),
            "base",
            self.base,
            "a BaseRetriever, such as index.as_retriever()",
        )
        if self.search is not None:
            search_port(self.search)
        if self.llm is not None:
            generate_port(self.llm)

    def ports(self, bundles: Sequence[QueryBundle], *, llm: object = None) -> Ports:
        """Build the ports of one call, so that its questions share them.

        Args:
            bundles: Queries of the call.
            llm: Language model that is used if the caller has none.
        """
        chosen = llm if self.llm is None else self.llm
        return Ports(
            retrieve=retrieve_port(self.base, bundles, title_keys=self.title_keys),
            search=None if self.search is None else search_port(self.search),
            generate=None if chosen is None else generate_port(chosen),
            shots=cast(Any, self.shots),
        )
