"""Runnables that are flows: one input, or a batch in lock step with each input traced alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from langchain_core.callbacks import CallbackManager
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.utils import Input, Output
from pydantic import BaseModel, ConfigDict, PrivateAttr

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.record import plain
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Traced, arun, arun_many, run, run_many
from fitrag_integrations.langchain.base.fields import Brief
from fitrag_integrations.langchain.base.ports import Backend, piece_of, text_of
from fitrag_integrations.langchain.base.tools import Asked, tool_of
from fitrag_integrations.text.replies import astreamed, streamed

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

T = TypeVar("T")
KEYS = ("question", "input", "query")
"""Where the question of a dict is looked for, in this order, unless a key is named."""


def question_of(given: object, key: str | None = None) -> str:
    """Find the question, or raise ``InputError`` naming where it was looked for.

    It is the text itself, a message's, that of the last message of the user in a conversation, or
    one entry of a dict, whose ``messages`` may be such a conversation.
    """
    if isinstance(given, str):
        return check_text("question", given, blank=False)
    if isinstance(given, BaseMessage):
        return check_text("question", str(given.text), blank=False)
    keys = KEYS if key is None else (key,)
    if isinstance(given, Mapping):
        for name in keys:
            if name in given:
                return question_of(given[name], key)
        if key is None and "messages" in given:
            return _last_asked(given["messages"])
    elif isinstance(given, Sequence) and given:
        return _last_asked(given)
    allowed = "a question, messages, or a dict with " + " or ".join(map(repr, keys))
    raise InputError.of("input", given=given, allowed=allowed)


def _last_asked(messages: Any) -> str:
    try:
        read = convert_to_messages(messages)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError.of("messages", given=messages, allowed="messages") from error
    for message in reversed(read):
        if isinstance(message, HumanMessage):
            return question_of(message)
    raise InputError.of("messages", given=messages, allowed="a message of the user among them")


@dataclass(eq=False)
class Last:
    """Keep the last run; it is no part of what its owner is, and stays behind when that travels."""

    traced: Traced[object] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Last)

    def __reduce__(self) -> tuple[object, ...]:
        return Last, ()


class FlowBatches(Brief, RunnableSerializable[Input, Output], Generic[Input, Output]):
    """Answer ``batch`` and ``abatch`` with one call for all equal asks."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _last: Last = PrivateAttr(default_factory=Last)
    _use: ClassVar[str] = "Answer a question."  # as a tool
    _takes: ClassVar[type[BaseModel]] = Asked
    _gives: ClassVar[type[BaseModel] | None] = None

    @abstractmethod
    def flows(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig], **options: object
    ) -> list[Flow[Any]]:
        """Return one flow per item of ``inputs``, whose I/O runs under its own of ``configs``."""

    def explained(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig]
    ) -> list[Flow[object]]:
        """Return the flows of ``inputs`` that ``explain`` runs, each under its own of
        ``configs``.
        """
        return self.flows(inputs, configs)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool for agents, which answers with a text and, as artifact, the whole result.

        Args:
            args_schema: The arguments, in place of the component's own.
            name: Name of the tool; None is the component's name.
            description: When an agent is to call it; None is a sentence about the component.
            arg_types: Types of the arguments, in place of a schema.

        Returns:
            A tool with ``response_format="content_and_artifact"``.
        """
        schema, named = args_schema or self._arguments(), name or self.get_name()
        use = self._use if description is None else description
        return tool_of(self, schema, name=named, description=use, arg_types=arg_types)

    @property
    def last_run(self) -> Traced[object] | None:
        """The trace of the run of this object that ended last, None where none has."""
        return self._last.traced

    def explain(self, input: Input | None = None, config: RunnableConfig | None = None) -> str:
        """Return what was asked, what came back and what was decided, for ``input`` or last
        time.
        """
        if input is not None:
            self._noted(run_many(self.explained([input], [ensure_config(config)])))
        return self._explained()

    async def aexplain(
        self, input: Input | None = None, config: RunnableConfig | None = None
    ) -> str:
        """Async version of `explain`."""
        if input is not None:
            self._noted(await arun_many(self.explained([input], [ensure_config(config)])))
        return self._explained()

    def _arguments(self) -> type[BaseModel]:
        return self._takes

    def result(self, traced: Traced[Any]) -> object:
        """Return what a flow, here ``traced``, ended with, which may be its exception."""
        return traced.outcome

    def batch(
        self,
        inputs: list[Input],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        **kwargs: Any,
    ) -> list[Output]:
        """Run several inputs with joined calls; results in the order of the inputs."""
        return self._batch_with_config(self._many, inputs, config, **kwargs)

    async def abatch(
        self,
        inputs: list[Input],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        **kwargs: Any,
    ) -> list[Output]:
        """Run several inputs with joined calls; results in the order of the inputs."""
        return await self._abatch_with_config(self._amany, inputs, config, **kwargs)

    def _many(
        self, inputs: list[Any], run_manager: object, config: list[RunnableConfig], **kwargs: object
    ) -> list[Any]:
        flows = map(watched, self.flows(inputs, config, **kwargs), config)
        return list(map(self.result, self._noted(run_many(flows))))

    async def _amany(
        self, inputs: list[Any], run_manager: object, config: list[RunnableConfig], **kwargs: object
    ) -> list[Any]:
        flows = map(watched, self.flows(inputs, config, **kwargs), config)
        return list(map(self.result, self._noted(await arun_many(flows))))

    def _noted(self, traces: list[Traced[object]]) -> list[Traced[Any]]:
        self._last.traced = traces[-1] if traces else self._last.traced
        return traces

    def _explained(self) -> str:
        if self._last.traced is None:
            raise InputError.of("input", given=None, allowed="an input: nothing was run so far")
        return self._last.traced.explain()


class FlowRunnable(FlowBatches[Input, Output], Generic[Input, Output]):
    """Answer ``invoke`` and ``ainvoke`` in a run of their own too."""

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the named and described fields of the input."""
        return self._arguments()

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the named and described fields of the output, where it is a dict."""
        return self._gives or cast(type[BaseModel], super().get_output_schema(config))

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """Run one input."""
        return self._call_with_config(self._once, input, config, **kwargs)

    async def ainvoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        """Run one input without blocking the event loop."""
        return await self._acall_with_config(self._aonce, input, config, **kwargs)

    def _once(
        self, input: object, run_manager: object, config: RunnableConfig, **kwargs: object
    ) -> Any:
        return _raised(self._many([input], [run_manager], [config], **kwargs)[0])

    async def _aonce(
        self, input: object, run_manager: object, config: RunnableConfig, **kwargs: object
    ) -> Any:
        return _raised((await self._amany([input], [run_manager], [config], **kwargs))[0])


@dataclass(frozen=True)
class Source:
    """Where the answers to some requests come from, in parts that ``Backend.convert`` reads."""

    backend: Backend
    given: object
    config: RunnableConfig

    def pieces(self, options: Mapping[str, object]) -> Iterator[object]:
        """Return the pieces as they come; those of a language model without its thoughts."""
        pieces = self.backend.runnable.stream(self.given, self.config, **options)
        if self.backend.convert is text_of:
            return streamed(map(piece_of, pieces))
        return map(self.backend.convert, pieces)

    async def apieces(self, options: Mapping[str, object]) -> AsyncIterator[object]:
        """Return the pieces as they come; those of a language model without its thoughts."""
        convert = self.backend.convert
        read, pieces = (
            (piece_of if convert is text_of else convert),
            self.backend.runnable.astream(self.given, self.config, **options),
        )
        converted = (read(piece) async for piece in pieces)
        async for piece in astreamed(converted) if convert is text_of else converted:
            yield piece


class StreamedRunnable(FlowRunnable[Input, Output], Generic[Input, Output]):
    """Pass on the pieces of whatever answers in the end."""

    @abstractmethod
    def source(self, given: Input, config: RunnableConfig) -> Flow[Source | Output] | None:
        """Return the flow to what streams, or to a whole answer; None calls ``invoke``.

        ``given`` and ``config`` are those of ``stream``.
        """

    def stream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        """Decide, then give the pieces of the answer as they come."""
        yield from self._transform_stream_with_config(iter([input]), self._pieces, config, **kwargs)

    async def astream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        """Decide, then give the pieces of the answer as they come."""
        pieces = self._atransform_stream_with_config(_one(input), self._apieces, config, **kwargs)
        async for piece in pieces:
            yield piece

    def _pieces(
        self, inputs: Iterator[Any], run_manager: object, config: RunnableConfig, **options: object
    ) -> Iterator[Any]:
        for given in inputs:
            if (flow := self.source(given, config)) is None:
                yield self._once(given, run_manager, config, **options)
                continue
            (traced,) = self._noted([run(watched(flow, config))])
            found = traced.value
            yield from found.pieces(options) if isinstance(found, Source) else [found]

    async def _apieces(
        self,
        inputs: AsyncIterator[Any],
        run_manager: object,
        config: RunnableConfig,
        **options: object,
    ) -> AsyncIterator[Any]:
        async for given in inputs:
            if (flow := self.source(given, config)) is None:
                yield await self._aonce(given, run_manager, config, **options)
                continue
            (traced,) = self._noted([await arun(watched(flow, config))])
            found = traced.value
            if not isinstance(found, Source):
                yield found
                continue
            async for piece in found.apieces(options):
                yield piece


async def _one(item: T) -> AsyncIterator[T]:
    yield item


def watched(flow: Flow[T], config: RunnableConfig) -> Flow[T]:
    """Show what a flow asks models as child runs under ``config``; Runnables open their own."""
    manager = CallbackManager.configure(config.get("callbacks"))
    if not manager.handlers:
        return (yield from flow)
    try:
        ask = next(flow)
        while True:
            run = None
            if not isinstance(ask.port.owner, Backend):
                run = manager.on_chain_start(None, {"items": plain(ask.items)}, name=ask.port.name)
            try:
                answers = yield ask
            except BaseException as error:  # noqa: BLE001 - the flow may recover, the run has failed
                if run is not None:
                    run.on_chain_error(error)
                ask = flow.throw(error)
            else:
                if run is not None:
                    run.on_chain_end({"answers": plain(answers)})
                ask = flow.send(answers)
    except StopIteration as ended:
        value: T = ended.value
        return value


def _raised(result: object) -> object:
    if isinstance(result, Exception):
        raise result
    return result
