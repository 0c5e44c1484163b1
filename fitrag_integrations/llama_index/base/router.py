"""What the query engines share: events, streams, engines that route, and the engines routed to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.settings import Settings
from llama_index.core.tools import FunctionTool
from llama_index.core.types import TokenAsyncGen, TokenGen

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.flow import Flow, Port, Traced, arun, arun_many, run, run_many
from fitrag_integrations.llama_index.base.events import dispatcher, emit
from fitrag_integrations.llama_index.base.fields import Configured
from fitrag_integrations.llama_index.base.models import astream, stream
from fitrag_integrations.llama_index.base.ports import aeach, bundles_of, each, has_own, settled
from fitrag_integrations.llama_index.base.response import report, response_of
from fitrag_integrations.llama_index.base.tools import Asked, tool_of
from fitrag_integrations.llama_index.prompts import Written
from fitrag_integrations.methods.answering import own_answer
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.types import Context
from fitrag_integrations.values.excerpt import unique


@dataclass(frozen=True)
class Routed:
    """Response of another engine, and the context with the decision that led to it."""

    context: Context
    response: object


class Router(Configured, BaseQueryEngine):
    """Answer by a flow that decides and asks an engine; batches run in lock step."""

    def _flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[object]]:
        """Return one flow per query; with ``alone`` its answer may be a stream."""
        raise NotImplementedError  # not abstract: the framework puts a span around those

    def _response(self, traced: Traced[object], *, alone: bool = False) -> RESPONSE_TYPE:
        """Make the response of what a flow ended with, or raise that."""
        return reported(traced)

    async def _aresponse(self, traced: Traced[object]) -> RESPONSE_TYPE:
        """Make the response of a query that came alone, without blocking the event loop."""
        return self._response(traced, alone=True)

    def as_tool(
        self, name: str | None = None, description: str = "Answer a question."
    ) -> FunctionTool:
        """Return a tool for agents, which answers with the answer.

        Args:
            name: Name of the tool; None is that of the class.
            description: When an agent is to call it.

        Returns:
            A tool whose ``raw_output`` is the response.
        """

        call, acall = (
            (lambda question: self.query(question)),
            (lambda question: self.aquery(question)),
        )
        return tool_of(self, Asked, call, acall, name=name, description=description)

    def explain(self, query: QueryType | None = None) -> str:
        """Return what was asked and decided, for ``query``, which is answered, or last time."""
        if query is not None:
            self._noted([run(self._flows(bundles_of([query]))[0])])
        return self._explained()

    @dispatcher.span
    def query_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Decide for all queries in lock step, in one batch per model, and answer each.

        Gives a response per query, in order. The first failure is raised, or, with
        ``return_exceptions``, stands in the place of its query's response.
        """
        bundles = bundles_of(queries)
        emit(QueryStartEvent(query=bundle) for bundle in bundles)
        return self._responses(
            bundles, self._noted(run_many(self._flows(bundles))), return_exceptions
        )

    @dispatcher.span
    async def aquery_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[object]:
        """Decide for all queries in lock step, as ``query_many``; engines answer side by side."""
        bundles = bundles_of(queries)
        emit(QueryStartEvent(query=bundle) for bundle in bundles)
        traces = self._noted(await arun_many(self._flows(bundles)))
        # many nodes take their time to make, too
        return await asyncio.to_thread(self._responses, bundles, traces, return_exceptions)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with query_event(self.callback_manager, query_bundle) as ended:
            (traced,) = self._noted([run(self._flows([query_bundle], alone=True)[0])])
            return ended(self._response(traced, alone=True))

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with query_event(self.callback_manager, query_bundle) as ended:
            (traced,) = self._noted([await arun(self._flows([query_bundle], alone=True)[0])])
            return ended(await self._aresponse(traced))

    def _responses(
        self, bundles: list[QueryBundle], traces: list[Traced[object]], return_exceptions: bool
    ) -> list[Any]:
        settled(traces, return_exceptions)
        responses = [traced.error or self._response(traced) for traced in traces]
        emit(
            QueryEndEvent(query=bundle, response=response)
            for bundle, response in zip(bundles, responses, strict=True)
            if not isinstance(response, Exception)
        )
        return responses


class WritingRouter(Router):
    """Router whose language model answers what no engine does, streamed on request.

    ``_answering`` has ``template`` and ``streaming``; ``llm`` is one of the options, and
    ``Settings.llm`` where it is None.
    """

    _answering: Any
    _prompt: ClassVar[tuple[str, bool]]  # its name, and whether it shows no passages

    def _get_prompts(self) -> PromptDictType:
        template = self._answering.template
        return {self._prompt[0]: template.prompt} if isinstance(template, Written) else {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        name, alone = self._prompt
        if name in prompts:
            self.template = Written(prompts[name], alone=alone)

    def _model(self) -> Any:
        return Settings.llm if self.llm is None else self.llm

    def _streams_tokens(self) -> bool:
        return self._answering.streaming and isinstance(self._model(), LLM)

    def _response(self, traced: Traced[Any], *, alone: bool = False) -> RESPONSE_TYPE:
        outcome, words = traced.value, None
        if isinstance(outcome, Routed):
            return reported(traced)
        if isinstance(outcome, Context):
            own = own_answer(outcome)
            words = once(own) if own else stream(self._model(), self._asked(outcome))
        elif alone and self._answering.streaming:
            words = once(outcome.text)
        return response_of(traced, words)

    async def _aresponse(self, traced: Traced[Any]) -> RESPONSE_TYPE:
        outcome, words = traced.value, None
        if isinstance(outcome, Routed):
            return reported(traced)
        if isinstance(outcome, Context):
            own = own_answer(outcome)
            words = aonce(own) if own else await astream(self._model(), self._asked(outcome))
        elif self._answering.streaming:
            words = aonce(outcome.text)
        return response_of(traced, words)

    def _asked(self, context: Context) -> str:
        return context.prompt(self._answering.template)


def reported(traced: Traced[Any]) -> RESPONSE_TYPE:
    """Add what was decided to another engine's response, which is otherwise left as it is.

    What that engine itself reported under ``fitrag`` moves to ``fitrag["engine"]``.
    """
    routed = traced.value
    summary = report(traced, routed.context)
    metadata = dict(routed.response.metadata or {})  # a new one: the old may have other owners
    if "fitrag" in metadata:
        summary["engine"] = metadata["fitrag"]
    routed.response.metadata = {**metadata, "fitrag": summary}
    response: RESPONSE_TYPE = routed.response
    return response


@contextmanager
def query_event(
    callback_manager: CallbackManager, query_bundle: QueryBundle
) -> Iterator[Callable[[RESPONSE_TYPE], RESPONSE_TYPE]]:
    """Report a query to the callback handlers, with the response passed through at its end."""
    payload: dict[str, object] = {EventPayload.QUERY_STR: query_bundle.query_str}
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


@dataclass(frozen=True)
class Handed:
    """A question for an engine.

    ``nodes`` None is a plain query; else the engine synthesizes from them and, if ``searches``,
    from what it retrieves itself behind them, each node once.
    """

    bundle: QueryBundle
    nodes: Sequence[NodeWithScore] | None = None
    searches: bool = False


def check_engine(field: str, engine: object) -> BaseQueryEngine:
    """Require a query engine."""
    allowed = "a BaseQueryEngine, such as index.as_query_engine()"
    return check_is(field, engine, BaseQueryEngine, allowed)  # type: ignore[type-abstract]


def can(engine: BaseQueryEngine, name: str) -> bool:
    """Check whether an engine has its own ``retrieve`` or ``synthesize``; the base's only
    raises.
    """
    return has_own(engine, name, BaseQueryEngine)


def engine_port(name: str, engine: Any, *, alone: bool) -> Port[Handed, Any]:
    """Build the port of an engine.

    One with ``query_many`` gets its plain queries in a call, unless the question came ``alone``:
    then it may be answered with a stream.
    """
    call, acall = each(partial(_ask, engine)), aeach(partial(_aask, engine))
    if alone or not hasattr(engine, "query_many"):
        return Port(name, call, acall)

    def many(items: Sequence[Handed]) -> list[object]:
        if any(item.nodes is not None for item in items):
            return call(items)
        found: list[object] = engine.query_many(
            [item.bundle for item in items], return_exceptions=True
        )
        return found

    async def amany(items: Sequence[Handed]) -> list[object]:
        if any(item.nodes is not None for item in items):
            return await acall(items)
        found: list[object] = await engine.aquery_many(
            [item.bundle for item in items], return_exceptions=True
        )
        return found

    return Port(name, many, amany)


def _ask(engine: Any, handed: Handed) -> object:
    if handed.nodes is None:
        return engine.query(handed.bundle)
    own = engine.retrieve(handed.bundle) if handed.searches else []
    return engine.synthesize(handed.bundle, _distinct(handed.nodes, own))


async def _aask(engine: Any, handed: Handed) -> object:
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
    return unique((node for nodes in lists for node in nodes), attrgetter("node_id"))


def decided_context(decider: Decider, question: str) -> Flow[Context]:
    """Return the flow that ends in a context with the decision, and without excerpts.

    Whatever it says, the rest is the caller's. The prompt of a known question is the no-retrieval
    one.
    """
    known = yield from decider(question)
    return Context(
        question,
        decision=known.decision,
        draft=known.draft,
        method="iknow",
        details=decider.details(known),
    )
