"""Retrievers that are flows: one query, or a batch of them in lock step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.tools import FunctionTool

from fitrag_integrations.flow import Flow, Traced, arun_many, run_many
from fitrag_integrations.llama_index.base.convert import Ids, check_ids, context_nodes
from fitrag_integrations.llama_index.base.events import (
    dispatcher,
    emit,
    emit_decision,
    tell_reduced,
)
from fitrag_integrations.llama_index.base.fields import Configured, made_from
from fitrag_integrations.llama_index.base.ports import Caller, bundles_of, settled
from fitrag_integrations.llama_index.base.tools import Query, tool_of
from fitrag_integrations.methods.adapting import name_of
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.ports import Method
from fitrag_integrations.types import Context


class FlowRetriever(Configured, BaseRetriever):
    """Answer every way a retriever is called from flows that end in a context."""

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; ``NotImplementedError`` in this base."""
        raise NotImplementedError  # not abstract: the framework puts a span around those

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Write what was found as nodes; ``NotImplementedError`` in this base."""
        raise NotImplementedError

    def explain(self, query: QueryType | None = None) -> str:
        """Return what was asked, what came back and what was kept, for ``query`` or last time."""
        if query is not None:
            self.trace_many([query])
        return self._explained()

    async def aexplain(self, query: QueryType | None = None) -> str:
        """Async version of `explain`."""
        if query is not None:
            await self.atrace_many([query])
        return self._explained()

    def as_tool(
        self,
        name: str | None = None,
        description: str = "Find passages that help to answer a question.",
    ) -> FunctionTool:
        """Return a tool for agents, which answers with numbered passages.

        Args:
            name: Name of the tool; None is that of the class.
            description: When an agent is to call it.

        Returns:
            A tool whose ``raw_output`` is the list of nodes.
        """

        call, acall = (lambda query: self.retrieve(query)), (lambda query: self.aretrieve(query))
        return tool_of(self, Query, call, acall, name=name, description=description)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found(self.trace_many([query_bundle])[0])

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found((await self.atrace_many([query_bundle]))[0])

    @dispatcher.span
    def retrieve_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Retrieve for all queries in lock step: their asks to one model make one batch.

        Gives a list of nodes per query. The first failure is raised, or, with
        ``return_exceptions``, stands in the place of its query's nodes.
        """
        bundles = bundles_of(queries)
        emit(RetrievalStartEvent(str_or_query_bundle=bundle) for bundle in bundles)
        return self._many(bundles, self.trace_many(bundles), return_exceptions)

    @dispatcher.span
    async def aretrieve_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Retrieve for all queries in lock step, as ``retrieve_many``."""
        bundles = bundles_of(queries)
        emit(RetrievalStartEvent(str_or_query_bundle=bundle) for bundle in bundles)
        traces = await self.atrace_many(bundles)  # many nodes take their time to make, too
        return await asyncio.to_thread(self._many, bundles, traces, return_exceptions)

    def trace_many(self, queries: Sequence[QueryType]) -> list[Traced[Context]]:
        """Run all ``queries`` in lock step and give their traces; none is raised."""
        return self._noted(run_many(self.flows(bundles_of(queries))))

    async def atrace_many(self, queries: Sequence[QueryType]) -> list[Traced[Context]]:
        """Run all queries in lock step, as ``trace_many``."""
        return self._noted(await arun_many(self.flows(bundles_of(queries))))

    def _many(
        self, bundles: list[QueryBundle], traces: list[Traced[Context]], return_exceptions: bool
    ) -> list[Any]:
        settled(traces, return_exceptions)
        found = [traced.error or self._found(traced) for traced in traces]
        emit(
            RetrievalEndEvent(str_or_query_bundle=bundle, nodes=nodes)
            for bundle, nodes in zip(bundles, found, strict=True)
            if not isinstance(nodes, Exception)
        )
        return found

    def _found(self, traced: Traced[Context]) -> list[NodeWithScore]:
        return self.nodes(traced.value)


class MethodOverBase(FlowRetriever):
    """Retriever of the excerpts that a method keeps from the nodes of ``base``.

    An empty list means that nothing was worth showing. What the run decided is in
    ``explain()`` and ``last_run``; the nodes themselves carry scores and places only. With
    ``ids="source"`` a node has its source's id instead of one of its own, for evaluators that match
    by id: of several pieces of one source LlamaIndex then keeps the first.
    """

    _held: ClassVar[tuple[str, ...]] = ("_method", "_caller")
    _method: Method
    _caller: Caller

    def __init__(
        self,
        caller: Caller,
        method: Method,
        *,
        ids: Ids = "pieces",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self.ids = check_ids(ids)
        self._caller, self._method = caller, method

    def __repr__(self) -> str:
        base, method = name_of(self._caller.base), name_of(self._method)
        return f"{type(self).__name__}(base={base}, method={method})"

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; equal asks of one call join."""
        ports = self._caller.ports(bundles)
        return [self._method(bundle.query_str, ports) for bundle in bundles]

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Write the excerpts as nodes, in their order."""
        return context_nodes(context, check_ids(self.ids))

    def _found(self, traced: Traced[Context]) -> list[NodeWithScore]:
        emit_decision(traced.value)
        nodes = self.nodes(traced.value)
        tell_reduced(traced, self._method, nodes)
        return nodes


class DerivedRetriever(FromFitted, MethodOverBase):
    """Run the method whose options the keywords are."""

    made: ClassVar[Any]
    takes: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        base: BaseRetriever,
        *,
        ids: Ids = "pieces",
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> None:
        brought = {name: options.pop(name) for name in self.takes if name in options}
        method = cast(Method, made_from(type(self), self.made, options))
        caller = Caller(base, **brought)
        super().__init__(caller, method, ids=ids, callback_manager=callback_manager)
