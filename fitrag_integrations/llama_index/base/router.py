"""Base classes of the query engines: batches, streams, responses, and routing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.llms import LLM
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.settings import Settings
from llama_index.core.types import TokenAsyncGen

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.core.show import name_of
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port, Traced, arun, run
from fitrag_integrations.llama_index.base.component import (
    Configured,
    bundles_of,
    has_own,
    is_sync_only,
)
from fitrag_integrations.llama_index.base.convert import context_nodes
from fitrag_integrations.llama_index.base.events import dispatcher, emit_decision
from fitrag_integrations.llama_index.base.ports import (
    aeach,
    astream,
    each,
    generate_port,
    stream,
)
from fitrag_integrations.llama_index.base.prompts import Written, as_template
from fitrag_integrations.methods.answering import Answered, own_answer
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.ik.decider import GateDecision, OnError
from fitrag_integrations.methods.metadata import own_noted, summary
from fitrag_integrations.methods.settings import settled
from fitrag_integrations.ports import showing
from fitrag_integrations.types import Context, Template
from fitrag_integrations.values.excerpt import unique
from fitrag_integrations.values.prompt import Shot, check_shots, with_shots


@dataclass(frozen=True)
class Routed:
    """Response of another engine, with the context of the decision that led to it."""

    context: Context
    response: Any


@dataclass(eq=False, repr=False, kw_only=True)
class Router(FromFitted, Configured, BaseQueryEngine):
    """Query engine that runs a flow, which decides and queries another engine.

    Batches run in lock step. A subclass that overrides ``_query`` or ``_aquery`` answers one query
    at a time with it, also in batches.
    """

    callback_manager: Any = None
    """LlamaIndex's own `CallbackManager`: receives the events of a run."""

    def __post_init__(self) -> None:
        BaseQueryEngine.__init__(self, self.callback_manager)
        super().__post_init__()

    def flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        """Return one flow per query.

        Args:
            bundles: Queries.
            alone: Whether it is a single query, whose answer may be a stream.
        """
        raise NotImplementedError

    def _response(self, traced: Traced[Any], *, alone: bool = False) -> RESPONSE_TYPE:
        """Make the response of what a flow ended with, or raise that."""
        return response_of(traced)

    async def _aresponse(self, traced: Traced[Any]) -> RESPONSE_TYPE:
        """Make the response of a query that came alone, without blocking the event loop."""
        return self._response(traced, alone=True)

    @dispatcher.span
    def query_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Decide for all queries in lock step, in one batch per model, and answer each query.

        Args:
            queries: Queries.
            return_exceptions: Whether an error is returned in place of its query's response;
                otherwise the first error is raised.

        Returns:
            A response per query, in order.
        """
        bundles = bundles_of(queries)
        if has_own(self, "_query", Router):
            return settled(each(self.query)(bundles), return_exceptions)
        _started(bundles)
        return settled(self._responses(bundles, self.trace_many(bundles)), return_exceptions)

    @dispatcher.span
    async def aquery_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[object]:
        """Async version of ``query_many``; engines answer concurrently."""
        bundles = bundles_of(queries)
        if has_own(self, "_query", Router) or has_own(self, "_aquery", Router):
            return settled(await aeach(self.aquery)(bundles), return_exceptions)
        _started(bundles)
        traces = await self.atrace_many(bundles)
        # many nodes take their time to make, too
        responses = await asyncio.to_thread(self._responses, bundles, traces)
        return settled(responses, return_exceptions)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            (traced,) = self._noted([run(self._asked([query_bundle], alone=True)[0])])
            response = self._response(traced, alone=True)
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        if is_sync_only(self, "_query", Router):
            return await asyncio.to_thread(self._query, query_bundle)
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            (traced,) = self._noted([await arun(self._asked([query_bundle], alone=True)[0])])
            response = await self._aresponse(traced)
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _responses(self, bundles: list[QueryBundle], traces: list[Traced[Any]]) -> list[Any]:
        """Make the response of each query; an error stands in its place."""
        responses = [traced.error or self._response(traced) for traced in traces]
        for bundle, response in zip(bundles, responses, strict=True):
            if not isinstance(response, Exception):
                dispatcher.event(QueryEndEvent(query=bundle, response=response))
        return responses


def _started(bundles: Sequence[QueryBundle]) -> None:
    for bundle in bundles:
        dispatcher.event(QueryStartEvent(query=bundle))


@dataclass(eq=False, repr=False, kw_only=True)
class Asking(FromFitted, Configured):
    """Mixin with a language model, and examples for its prompts."""

    llm: Any = None
    shots: Iterable[Shot | Row] = ()

    def _prepare(self) -> None:
        super()._prepare()
        self._shots = check_shots("shots", self.shots)
        if self.llm is not None:
            generate_port(self.llm)


@dataclass(eq=False, repr=False, kw_only=True)
class WritingRouter(Asking, Router):
    """Router whose language model answers the queries that no engine does."""

    streaming: bool = False
    template: Template | BasePromptTemplate | str | None = None
    _prompt: ClassVar[tuple[str, bool]]  # its name, and whether it shows no passages

    def _prepare(self) -> None:
        check_is("streaming", self.streaming, bool)
        self._template = as_template(self.template, alone=self._prompt[1])
        super()._prepare()

    def _get_prompts(self) -> PromptDictType:
        template = self._template
        return {self._prompt[0]: template.prompt} if isinstance(template, Written) else {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        name, alone = self._prompt
        if name in prompts:
            self.template = Written(prompts[name], alone=alone)

    def _model(self) -> Any:
        return Settings.llm if self.llm is None else self.llm

    def _streams_tokens(self) -> bool:
        return self.streaming and isinstance(self._model(), LLM)

    def _response(self, traced: Traced[Any], *, alone: bool = False) -> RESPONSE_TYPE:
        if not (alone and self.streaming) or isinstance(traced.value, Routed):
            return response_of(traced)
        said, prompt = self._written(traced.value)
        tokens = stream(self._model(), prompt) if prompt else (text for text in [said])
        return response_of(traced, tokens)

    async def _aresponse(self, traced: Traced[Any]) -> RESPONSE_TYPE:
        if not self.streaming or isinstance(traced.value, Routed):
            return response_of(traced)
        said, prompt = self._written(traced.value)

        async def once() -> TokenAsyncGen:
            yield said

        return response_of(traced, await astream(self._model(), prompt) if prompt else once())

    def _written(self, outcome: Context | Answered) -> tuple[str, str]:
        """Return the answer that is there already, or the prompt of the one that will stream."""
        if not isinstance(outcome, Context):
            return outcome.text, ""
        own = own_answer(outcome)
        return own, "" if own else with_shots(outcome.prompt(self._template), self._shots)


@dataclass(eq=False, repr=False)
class Deciding(Asking):
    """Mixin with the options of the decision whether the model knows the answer."""

    gate: Any = None
    _: KW_ONLY
    drafter: object = None
    threshold: float | None = None
    on_error: OnError = "retrieve"
    allow_other_model: bool = False

    @property
    def _named(self) -> str:
        """The gate in a repr; without one, the language model's own gate decides."""
        return "own_gate" if self.gate is None else name_of(self.gate)

    def _prepare(self) -> None:
        super()._prepare()
        self._decider = GateDecision(
            self.gate,
            drafter=self.drafter,
            threshold=self.threshold,
            on_error=self.on_error,
            allow_other_model=self.allow_other_model,
        )

    def decided(self, question: str) -> Flow[Context]:
        """Return the flow for a ``question`` that ends in a context without excerpts.

        The caller acts on the decision. A known question has the no-retrieval prompt. Raises
        `InputError` without a gate and a language model.
        """
        decider = self._decider
        llm = self.llm
        if self.gate is None and llm is None:
            try:
                llm = Settings.llm
            except ImportError as error:  # the framework's own choice is not installed
                missing = f"Pass `gate=` or `llm=`, or set `Settings.llm`: {error}"
                raise InputError(missing) from error
        asked = showing(generate_port(llm), self._shots) if self._shots and llm else llm
        known = yield from decider.decided(question, asked)
        return Context(
            question,
            decision=known.decision,
            draft=known.draft,
            method="iknow",
            details=decider.details(known),
        )


def response_of(traced: Traced[Any], tokens: Any = None) -> RESPONSE_TYPE:
    """Build the response of a run; an error that ended its flow is raised.

    The response of another engine is returned with only the decision added; that engine's own
    metadata under ``fitrag`` moves to ``fitrag["engine"]``.

    Args:
        traced: The run.
        tokens: Sync or async generator of the answer; the response is then a streaming one.
    """
    outcome = traced.value
    context = outcome if isinstance(outcome, Context) else outcome.context
    summary = report(traced, context)
    if isinstance(outcome, Routed):
        response: RESPONSE_TYPE = outcome.response
        metadata = dict(response.metadata or {})  # a new one: the old may have other owners
        if "fitrag" in metadata:
            summary["engine"] = metadata["fitrag"]
        response.metadata = {**metadata, "fitrag": summary}
        return response
    emit_decision(context)
    nodes, shown = context_nodes(context), {"fitrag": summary}
    if isinstance(tokens, AsyncGenerator):
        return AsyncStreamingResponse(tokens, nodes, shown)
    if isinstance(tokens, Generator):
        return StreamingResponse(tokens, nodes, shown)
    return Response(outcome.text, nodes, shown)


def report(traced: Traced[Any], context: Context) -> dict[str, Any]:
    """Return the decision, the notes and the steps as plain values.

    Args:
        traced: The run.
        context: Its context.
    """
    context = own_noted(context)
    values: dict[str, Any] = summary(context)
    values["queries"] = list(context.queries)
    values["notes"] = list(context.notes)
    values["steps"] = [step.to_dict() for step in traced.steps]
    if isinstance(traced.outcome, Answered):
        answer: dict[str, Any] = {"score": plain(traced.outcome.score)}
        if (one := traced.outcome.source) is not None:  # where an extracted answer stands
            answer |= {"source_id": one.passage.id, "start": one.start, "end": one.end}
        values["answer"] = answer
    return values


@dataclass(frozen=True)
class Handed:
    """Question for an engine.

    ``nodes`` None is a plain query; else the engine synthesizes from them and, if ``searches``,
    from what it retrieves itself behind them, each node once.
    """

    bundle: QueryBundle
    nodes: Sequence[NodeWithScore] | None = None
    searches: bool = False


def check_engine(field: str, engine: object) -> BaseQueryEngine:
    """Check that a value is a query engine.

    Args:
        field: Name of the field in errors.
        engine: Value to check.
    """
    allowed = "a BaseQueryEngine, such as index.as_query_engine()"
    return check_is(field, engine, BaseQueryEngine, allowed)  # type: ignore[type-abstract]


def can(engine: BaseQueryEngine, name: str) -> bool:
    """Check whether an engine overrides a method that raises in the base class.

    Args:
        engine: Query engine.
        name: ``retrieve`` or ``synthesize``.
    """
    return has_own(engine, name, BaseQueryEngine)


def engine_port(name: str, engine: Any, *, alone: bool) -> Port[Handed, Any]:
    """Build the port of an engine.

    An engine with ``query_many`` gets its questions in one call, unless it synthesizes.

    Args:
        name: Name of the port.
        engine: Query engine.
        alone: Whether it is a single question, which is asked alone because a stream may answer it.
    """
    if alone or not hasattr(engine, "query_many") or can(engine, "synthesize"):
        return Port(name, each(partial(_ask, engine)), aeach(partial(_aask, engine)))

    def call(items: Sequence[Handed]) -> Any:
        return engine.query_many([item.bundle for item in items], return_exceptions=True)

    async def acall(items: Sequence[Handed]) -> Any:
        return await engine.aquery_many([item.bundle for item in items], return_exceptions=True)

    return Port(name, call, acall)


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
