"""What the query engines share: the event of a query, streams, and engines that route."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.schema import QueryBundle, QueryType
from llama_index.core.types import TokenAsyncGen, TokenGen

from fitrag_integrations.flow import Flow, Traced, arun, arun_many, run, run_many
from fitrag_integrations.llama_index._caller import bundles_of, settled
from fitrag_integrations.llama_index._response import report
from fitrag_integrations.llama_index.events import dispatcher, tell_answered, tell_asked
from fitrag_integrations.types import Context


@dataclass(frozen=True)
class Routed:
    """Hold another engine's response and the context with the decision that led to it."""

    context: Context
    response: Any


class Router(BaseQueryEngine):
    """Answer by a flow that decides and asks an engine; batches run in lock step."""

    def _flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        """Give one flow per query; ``alone`` tells that its answer may be a stream."""
        raise NotImplementedError  # not abstract: the framework puts a span around those

    def _response(self, traced: Traced[Any], *, alone: bool = False) -> RESPONSE_TYPE:
        """Make the response of what a flow ended with, or raise that."""
        return reported(traced)

    async def _aresponse(self, traced: Traced[Any]) -> RESPONSE_TYPE:
        """Make the response of a query that came alone, without blocking the event loop."""
        return self._response(traced, alone=True)

    @dispatcher.span
    def query_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Decide for all queries in lock step, in one batch per model, and answer each.

        Gives a response per query, in order. The first failure is raised, or, with
        ``return_exceptions``, stands in the place of its query's response.
        """
        bundles = bundles_of(queries)
        tell_asked(bundles)
        return self._told(bundles, run_many(self._flows(bundles)), return_exceptions)

    @dispatcher.span
    async def aquery_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Decide for all queries in lock step, as ``query_many``; engines answer side by side."""
        bundles = bundles_of(queries)
        tell_asked(bundles)
        return self._told(bundles, await arun_many(self._flows(bundles)), return_exceptions)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with query_event(self.callback_manager, query_bundle) as ended:
            traced = run(self._flows([query_bundle], alone=True)[0])
            return ended(self._response(traced, alone=True))

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with query_event(self.callback_manager, query_bundle) as ended:
            traced = await arun(self._flows([query_bundle], alone=True)[0])
            return ended(await self._aresponse(traced))

    def _told(
        self, bundles: list[QueryBundle], traces: list[Traced[Any]], return_exceptions: bool
    ) -> list[Any]:
        settled(traces, return_exceptions)
        responses = [traced.error or self._response(traced) for traced in traces]
        tell_answered(bundles, responses)
        return responses


def reported(traced: Traced[Any]) -> RESPONSE_TYPE:
    """Add what was decided to another engine's response, which is otherwise left as it is.

    What that engine itself reported under ``fitrag`` moves to ``fitrag["engine"]``.
    """
    routed = traced.value
    told = report(traced, routed.context)
    metadata = dict(routed.response.metadata or {})  # a new one: the old may have other owners
    if "fitrag" in metadata:
        told["engine"] = metadata["fitrag"]
    routed.response.metadata = {**metadata, "fitrag": told}
    response: RESPONSE_TYPE = routed.response
    return response


@contextmanager
def query_event(
    callback_manager: CallbackManager, query_bundle: QueryBundle
) -> Iterator[Callable[[RESPONSE_TYPE], RESPONSE_TYPE]]:
    """Report a query to the callback handlers, with the response passed through at its end."""
    payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
    with callback_manager.event(CBEventType.QUERY, payload=payload) as event:

        def ended(response: RESPONSE_TYPE) -> RESPONSE_TYPE:
            event.on_end(payload={EventPayload.RESPONSE: response})
            return response

        yield ended


def once(text: str) -> TokenGen:
    """Stream a text in one piece."""
    yield text


async def aonce(text: str) -> TokenAsyncGen:
    """Stream a text in one piece."""
    yield text
