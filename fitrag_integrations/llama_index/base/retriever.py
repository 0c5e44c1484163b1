"""Base classes of the retrievers, which run one flow per query, in lock step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType

from fitrag_integrations.core.checks import check_one
from fitrag_integrations.core.show import name_of
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.llama_index.base.component import (
    Configured,
    bundles_of,
    has_own,
    is_sync_only,
)
from fitrag_integrations.llama_index.base.convert import Ids, context_nodes
from fitrag_integrations.llama_index.base.events import dispatcher, emit_decision, emit_reduced
from fitrag_integrations.llama_index.base.ports import Caller, aeach, each
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.metadata import noted
from fitrag_integrations.methods.settings import option_names, settled
from fitrag_integrations.ports import Method
from fitrag_integrations.types import Context


@dataclass(eq=False, repr=False, kw_only=True)
class FlowRetriever(Configured, BaseRetriever):
    """Retriever that answers every kind of call from flows that end in a context.

    A subclass that overrides ``_retrieve`` or ``_aretrieve`` answers one query at a time with it,
    also in batches.
    """

    callback_manager: CallbackManager | None = None  # type: ignore[assignment]
    """LlamaIndex's own: receives the events of a run."""
    object_map: dict[str, Any] | None = None  # type: ignore[assignment]
    """LlamaIndex's own: objects that index nodes stand for, by id."""
    objects: list[IndexNode] | None = None
    """LlamaIndex's own: index nodes whose objects are retrieved from."""
    verbose: bool = False
    """LlamaIndex's own: prints which object answers."""
    _caller: Caller = field(init=False)
    _method: Method = field(init=False)

    def __post_init__(self) -> None:
        own = (self.callback_manager, self.object_map, self.objects, self.verbose)
        BaseRetriever.__init__(self, *own)
        super().__post_init__()

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; equal requests of one call are joined."""
        ports = self._caller.ports(bundles)
        return [noted(self._method, bundle.query_str, ports) for bundle in bundles]

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Convert the results to nodes; ``NotImplementedError`` in this base."""
        raise NotImplementedError  # not abstract: the framework puts a span around those

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found(self.trace_many([query_bundle])[0])

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if is_sync_only(self, "_retrieve", FlowRetriever):  # as the framework's own does
            return await asyncio.to_thread(self._retrieve, query_bundle)
        return self._found((await self.atrace_many([query_bundle]))[0])

    @dispatcher.span
    def retrieve_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Retrieve for all queries in lock step, with one batch per model.

        Args:
            queries: Queries.
            return_exceptions: Whether an error is returned in place of its query's nodes; otherwise
                the first error is raised.

        Returns:
            A list of nodes per query, in order.
        """
        bundles = bundles_of(queries)
        if has_own(self, "_retrieve", FlowRetriever):
            return settled(each(self.retrieve)(bundles), return_exceptions)
        _started(bundles)
        return settled(self._many(bundles, self.trace_many(bundles)), return_exceptions)

    @dispatcher.span
    async def aretrieve_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Async version of ``retrieve_many``."""
        bundles = bundles_of(queries)
        if any(has_own(self, name, FlowRetriever) for name in ("_retrieve", "_aretrieve")):
            return settled(await aeach(self.aretrieve)(bundles), return_exceptions)
        _started(bundles)
        traces = await self.atrace_many(bundles)  # many nodes take their time to make, too
        return settled(await asyncio.to_thread(self._many, bundles, traces), return_exceptions)

    def _many(self, bundles: list[QueryBundle], traces: list[Traced[Context]]) -> list[Any]:
        """Write the nodes of each query as ``retrieve`` does; an error stands in their place."""
        found: list[Any] = [
            traced.error or self._handle_recursive_retrieval(bundle, self._found(traced))
            for bundle, traced in zip(bundles, traces, strict=True)
        ]
        for bundle, nodes in zip(bundles, found, strict=True):
            if not isinstance(nodes, Exception):
                dispatcher.event(RetrievalEndEvent(str_or_query_bundle=bundle, nodes=nodes))
        return found

    def _found(self, traced: Traced[Context]) -> list[NodeWithScore]:
        emit_decision(traced.value)
        nodes = self.nodes(traced.value)
        emit_reduced(traced, vars(self).get("_method"), nodes)
        return nodes


def _started(bundles: Sequence[QueryBundle]) -> None:
    for bundle in bundles:
        dispatcher.event(RetrievalStartEvent(str_or_query_bundle=bundle))


@dataclass(eq=False, repr=False, kw_only=True)
class MethodOverBase(FromFitted, FlowRetriever):
    """Retriever of the excerpts that a method keeps from the nodes of ``base``.

    An empty list means that no node is worth showing. The decisions of the run are in ``explain()``
    and ``last_run``; the nodes themselves have only scores and places. With ``ids="source"`` a node
    has the id of its source, for evaluators that match by id. LlamaIndex then keeps only the first
    of several pieces of one source.
    """

    made: ClassVar[Any]
    """The method's dataclass, whose options are fields here."""

    base: BaseRetriever = field(kw_only=False)
    ids: Ids = "pieces"
    title_keys: Sequence[str] | None = None
    """Metadata keys whose values are read as a node's title, in this order; None are those that an
    embedder reads."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base={name_of(self.base)}, method={name_of(self._method)})"

    def _prepare(self) -> None:
        check_one("ids", self.ids, get_args(Ids))
        own = vars(self)
        asked = own.get("search"), own.get("llm"), self.title_keys, own.get("shots", ())
        self._method, self._caller = self._build(), Caller(self.base, *asked)

    def _build(self) -> Method:
        made = self.made
        return cast(Method, made(**{name: getattr(self, name) for name in option_names(made)}))

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Convert the excerpts to nodes, in their order."""
        return context_nodes(context, self.ids)
