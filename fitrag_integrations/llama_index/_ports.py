"""Build the port of a LlamaIndex retriever, for one call or one batch.

Each item is asked for by itself, side by side when async, and one that fails is answered with its
exception, which only its own question hears of. What the framework would run on the event loop,
because the component has no async side of its own, runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import getattr_static
from typing import Any, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import QueryBundle, QueryType

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index._convert import passages_of

Q = TypeVar("Q")
AT_ONCE = 16
"""How many calls of one batch run side by side: base retrievers and services have limits."""


def retrieve_port(
    base: Any, bundles: Sequence[QueryBundle] = (), *, name: str = "retrieve"
) -> Port[str, Any]:
    """Build the port of a retriever; one that has ``retrieve_many`` gets all queries in a call."""
    if isinstance(base, Port):
        return base
    check_base(base)
    known = {bundle.query_str: bundle for bundle in bundles}

    def asked(query: str) -> QueryType:
        return known.get(query, query)

    def one(query: str) -> Any:
        return passages_of(base.retrieve(asked(query)))

    async def aone(query: str) -> Any:
        if not has_own(base, "_aretrieve", BaseRetriever):
            return await asyncio.to_thread(one, query)
        return passages_of(await base.aretrieve(asked(query)))

    if not hasattr(base, "retrieve_many"):
        return Port(name, each(one), aeach(aone))

    def many(queries: Sequence[str]) -> list[Any]:
        return _lists(base.retrieve_many([*map(asked, queries)], return_exceptions=True))

    async def amany(queries: Sequence[str]) -> list[Any]:
        return _lists(await base.aretrieve_many([*map(asked, queries)], return_exceptions=True))

    return Port(name, many, amany)


def check_base(base: Any) -> None:
    """Require a retriever."""
    if not isinstance(base, BaseRetriever | Port):
        allowed = "a BaseRetriever, such as index.as_retriever()"
        raise InputError.of("base", given=base, allowed=allowed)


def _lists(found: Sequence[Any]) -> list[Any]:
    return [nodes if isinstance(nodes, Exception) else passages_of(nodes) for nodes in found]


def each(call: Callable[[Q], Any]) -> Callable[[Sequence[Q]], list[Any]]:
    """Call once per item; what an item raises is its answer."""

    def guarded(item: Q) -> Any:
        try:
            return call(item)
        except Exception as error:  # raised in the flow that asked
            return error

    return lambda items: [guarded(item) for item in items]


def aeach(
    acall: Callable[[Q], Awaitable[Any]],
) -> Callable[[Sequence[Q]], Awaitable[list[Any]]]:
    """Await one call per item, at most ``AT_ONCE`` side by side."""

    async def all_of(items: Sequence[Q]) -> list[Any]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def guarded(item: Q) -> Any:
            async with slots:
                try:
                    return await acall(item)
                except Exception as error:  # raised in the flow that asked
                    return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guarded(item)) for item in items]
        return [task.result() for task in tasks]

    return all_of


def has_own(instance: object, name: str, base: type) -> bool:
    """Tell whether a class gives its own version of a method of ``base``."""
    # static, because the framework's decorators give another object at each look
    return getattr_static(type(instance), name, None) is not getattr_static(base, name)
