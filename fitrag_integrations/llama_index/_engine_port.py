"""Hand a question to another query engine, as a port: to be queried, or with its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Port
from fitrag_integrations.llama_index._ports import aeach, each, has_own


@dataclass(frozen=True)
class Handed:
    """Hold a question for an engine.

    ``nodes`` None is a plain query; else the engine synthesizes from them and, if ``searches``,
    from what it retrieves itself behind them, each node once.
    """

    bundle: QueryBundle
    nodes: Sequence[NodeWithScore] | None = None
    searches: bool = False


def check_engine(field: str, engine: Any) -> BaseQueryEngine:
    """Require a query engine."""
    if not isinstance(engine, BaseQueryEngine):
        allowed = "a BaseQueryEngine, such as index.as_query_engine()"
        raise InputError.of(field, given=engine, allowed=allowed)
    return engine


def can(engine: BaseQueryEngine, name: str) -> bool:
    """Tell whether an engine has its own ``retrieve`` or ``synthesize``; the base's only raises."""
    return has_own(engine, name, BaseQueryEngine)


def engine_port(name: str, engine: Any, *, alone: bool) -> Port[Handed, Any]:
    """Build the port of an engine.

    One with ``query_many`` gets its plain queries in a call, unless the question came ``alone``:
    then it may be answered with a stream.
    """
    call, acall = each(partial(_ask, engine)), aeach(partial(_aask, engine))
    if alone or not hasattr(engine, "query_many"):
        return Port(name, call, acall)

    def many(items: Sequence[Handed]) -> list[Any]:
        if any(item.nodes is not None for item in items):
            return call(items)
        found: list[Any] = engine.query_many(_bundles(items), return_exceptions=True)
        return found

    async def amany(items: Sequence[Handed]) -> list[Any]:
        if any(item.nodes is not None for item in items):
            return await acall(items)
        found: list[Any] = await engine.aquery_many(_bundles(items), return_exceptions=True)
        return found

    return Port(name, many, amany)


def _ask(engine: Any, handed: Handed) -> Any:
    if handed.nodes is None:
        return engine.query(handed.bundle)
    own = engine.retrieve(handed.bundle) if handed.searches else []
    return engine.synthesize(handed.bundle, _distinct(handed.nodes, own))


async def _aask(engine: Any, handed: Handed) -> Any:
    if handed.nodes is None:
        return await engine.aquery(handed.bundle)
    own: Sequence[NodeWithScore] = ()
    if handed.searches and callable(getattr(engine, "aretrieve", None)):
        own = await engine.aretrieve(handed.bundle)
    elif handed.searches:
        own = await asyncio.to_thread(engine.retrieve, handed.bundle)
    nodes = _distinct(handed.nodes, own)
    if can(engine, "asynthesize"):
        return await engine.asynthesize(handed.bundle, nodes)
    return await asyncio.to_thread(engine.synthesize, handed.bundle, nodes)


def _distinct(*lists: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    once: dict[str, NodeWithScore] = {}
    for node in (node for nodes in lists for node in nodes):
        once.setdefault(node.node_id, node)
    return list(once.values())


def _bundles(items: Sequence[Handed]) -> list[QueryBundle]:
    return [item.bundle for item in items]
