"""Base classes of Runnables that run flows, in lock step, with each input traced alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, cast

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.runnables import RunnableConfig, RunnableGenerator, RunnableSerializable
from langchain_core.runnables.config import (
    ensure_config,
    get_config_list,
    patch_config,
    set_config_context,
)
from langchain_core.runnables.utils import Input, Output, coro_with_context
from pydantic import BaseModel

from fitrag_integrations.core.generic import T
from fitrag_integrations.core.record import plain
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Traced, arun_many, run_many
from fitrag_integrations.langchain.base.conversation import QuestionInput
from fitrag_integrations.langchain.base.fields import CONFIG, Brief
from fitrag_integrations.langchain.base.ports import Backend, piece_of, text_of
from fitrag_integrations.methods.settings import settled
from fitrag_integrations.text.replies import astreamed, streamed


def is_own(kind: type, *names: str) -> bool:
    """Check that no subclass outside this package overrides methods of these ``names``."""
    return all(getattr(kind, name).__module__.startswith("fitrag_integrations.") for name in names)


class FlowBatches(Brief, RunnableSerializable[Input, Output], Generic[Input, Output]):
    """Runnable that joins the equal requests of a batch and traces each input as its own run."""

    model_config = CONFIG
    _run: ClassVar[str] = "chain"
    _alone: ClassVar[dict[str, tuple[str, ...]]] = {"batch": ("invoke",), "abatch": ("ainvoke",)}
    """What answers one input: a subclass that overrides it is called once for each."""

    @abstractmethod
    def flows(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Any]]:
        """Return one flow per input.

        Args:
            inputs: Inputs.
            configs: The config of each input, in the same order.
            **options: Keyword arguments of the call.
        """

    def explained(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig]
    ) -> list[Flow[object]]:
        """Return the flows that ``explain`` runs."""
        return self.flows(inputs, configs)

    @property
    def last_run(self) -> Traced[object] | None:
        """Return the trace of the last run of this object that ended, or None."""
        return cast("Traced[object] | None", self._state.traced)

    def explain(self, input: Input | None = None, config: RunnableConfig | None = None) -> str:
        """Return the requests, answers and decision of a run as text.

        Args:
            input: Input to run. Defaults to the last run.
            config: Config of the run.

        Raises:
            InputError: If there is neither an input nor a last run.
        """
        if input is not None:
            self._ended(run_many(self.explained([input], [ensure_config(config)])))
        refuse_if(self.last_run is None, "nothing was run so far: pass an input")
        return cast("Traced[object]", self.last_run).explain()

    async def aexplain(
        self, input: Input | None = None, config: RunnableConfig | None = None
    ) -> str:
        """Async version of `explain`."""
        if input is not None:
            self._ended(await arun_many(self.explained([input], [ensure_config(config)])))
        return self.explain()

    def result(self, traced: Traced[Any]) -> object:
        """Return the result of the flow ``traced``, which may be its exception."""
        return traced.outcome

    def batch(
        self,
        inputs: list[Input],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Run several inputs with joined calls.

        Args:
            inputs: Inputs.
            config: Config of all inputs, or one for each.
            **kwargs: Options of the calls, and ``return_exceptions``.

        Returns:
            Results in the order of the inputs.
        """
        joined = is_own(type(self), *self._alone["batch"])
        return (self._joined if joined else super().batch)(inputs, config, **kwargs)

    async def abatch(
        self,
        inputs: list[Input],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Async version of ``batch``."""
        joined = is_own(type(self), *self._alone["batch"], *self._alone["abatch"])
        return await (self._ajoined if joined else super().abatch)(inputs, config, **kwargs)

    def _joined(
        self, inputs: list[Any], config: Any, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[Any]:
        configs = get_config_list(config, len(inputs))
        runs = [self._begun(CallbackManager, *each) for each in zip(inputs, configs, strict=True)]
        try:
            outcomes = self._answered(inputs, _under(configs, runs), kwargs)
        except BaseException as error:  # noqa: BLE001 - an interrupt, which ends the runs too
            outcomes = [error] * len(runs)
        for run, outcome in zip(runs, outcomes, strict=True):
            self._close(run, outcome)
        return settled(outcomes, return_exceptions)

    async def _ajoined(
        self, inputs: list[Any], config: Any, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[Any]:
        configs, kind = get_config_list(config, len(inputs)), AsyncCallbackManager
        runs = [await self._begun(kind, *each) for each in zip(inputs, configs, strict=True)]
        try:
            outcomes = await self._aanswered(inputs, _under(configs, runs), kwargs)
        except BaseException as error:  # noqa: BLE001 - a cancellation, which ends the runs too
            outcomes = [error] * len(runs)
        for run, outcome in zip(runs, outcomes, strict=True):
            await self._close(run, outcome)
        return settled(outcomes, return_exceptions)

    def _begun(self, kind: Any, given: Input, config: RunnableConfig) -> Any:
        """Open the run of one input."""
        manager = kind.configure(
            inheritable_callbacks=config.get("callbacks"),
            inheritable_tags=config.get("tags"),
            local_tags=getattr(self, "tags", None),
            inheritable_metadata=config.get("metadata"),
            local_metadata=getattr(self, "metadata", None),
        )
        name, run_id = config.get("run_name") or self.get_name(), config.get("run_id")
        return getattr(manager, f"on_{self._run}_start")(None, given, name=name, run_id=run_id)

    def _close(self, run: Any, outcome: object) -> Any:
        ended = "error" if isinstance(outcome, BaseException) else "end"
        return getattr(run, f"on_{self._run}_{ended}")(outcome)

    def _answered(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig], options: dict[str, Any]
    ) -> list[Any]:
        """Run the flows of inputs; what they call is a child of their runs."""
        flows = self._watched(inputs, configs, options)
        if len(configs) != 1:
            return self._ended(run_many(flows))
        with set_config_context(configs[0]) as context:
            return self._ended(context.run(run_many, flows))

    async def _aanswered(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig], options: dict[str, Any]
    ) -> list[Any]:
        flows = self._watched(inputs, configs, options)
        if len(configs) != 1:
            return self._ended(await arun_many(flows))
        with set_config_context(configs[0]) as context:
            return self._ended(await coro_with_context(arun_many(flows), context, create_task=True))

    def _watched(
        self, inputs: Sequence[Input], configs: Sequence[RunnableConfig], options: dict[str, Any]
    ) -> list[Flow[Any]]:
        return list(map(watched, self.flows(inputs, configs, **options), configs))

    def _ended(self, traces: list[Traced[Any]]) -> list[Any]:
        self._state.traced = traces[-1] if traces else self._state.traced
        return list(map(self.result, traces))


class FlowRunnable(FlowBatches[Input, Output], Generic[Input, Output]):
    """Runnable that answers ``invoke`` and ``ainvoke`` as a batch of one."""

    _takes: ClassVar[type[BaseModel]] = QuestionInput
    _gives: ClassVar[type[BaseModel] | None] = None

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the named and described fields of the input."""
        return self._takes

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the named and described fields of the output, if it is a dict."""
        return self._gives or cast(type[BaseModel], super().get_output_schema(config))

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """Run one input.

        Args:
            input: Input.
            config: Config of the run.
            **kwargs: Options of the call.
        """
        return cast(Output, self._joined([input], config, **kwargs)[0])

    async def ainvoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        """Async version of `invoke`."""
        if not is_own(type(self), "invoke"):
            return await super().ainvoke(input, config, **kwargs)
        return cast(Output, (await self._ajoined([input], config, **kwargs))[0])


@dataclass(frozen=True)
class Source:
    """Source of the answers to some requests, in pieces that ``Backend.convert`` reads."""

    backend: Backend
    given: object
    config: RunnableConfig

    def pieces(self, options: Mapping[str, object]) -> Iterator[object]:
        """Yield the pieces as they arrive; a language model's reasoning is removed."""
        pieces = self.backend.runnable.stream(self.given, self.config, **options)
        if self.backend.convert is text_of:
            return streamed(map(piece_of, pieces))
        return map(self.backend.convert, pieces)

    async def apieces(self, options: Mapping[str, object]) -> AsyncIterator[object]:
        """Async version of ``pieces``."""
        writes = self.backend.convert is text_of
        read = piece_of if writes else self.backend.convert
        pieces = self.backend.runnable.astream(self.given, self.config, **options)
        converted: AsyncIterator[Any] = (read(piece) async for piece in pieces)
        async for piece in astreamed(converted) if writes else converted:
            yield piece


class StreamedRunnable(FlowRunnable[Input, Output], Generic[Input, Output]):
    """Runnable that streams the pieces of the model or branch that answers."""

    @abstractmethod
    def source(self, given: Input, config: RunnableConfig, **options: Any) -> Flow[Source | Output]:
        """Return the flow that ends in the source to stream, or in a whole answer.

        Args:
            given: Input of ``stream``.
            config: Config of ``stream``.
            **options: Options of ``stream``.
        """

    def stream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        """Decide, then yield the pieces of the answer as they arrive.

        Args:
            input: Input.
            config: Config of the run.
            **kwargs: Options of the model or branch that answers.
        """
        yield from self._streamed().stream(input, config, **kwargs)

    async def astream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        """Async version of ``stream``."""
        async for piece in self._streamed().astream(input, config, **kwargs):
            yield piece

    def _streamed(self) -> RunnableGenerator[Input, Output]:
        pieces: Any = self._pieces, self._apieces  # which take the config too
        return RunnableGenerator(*pieces, name=self.get_name())

    def _pieces(
        self, inputs: Iterator[Any], config: RunnableConfig, **options: Any
    ) -> Iterator[Any]:
        for given in inputs:
            flow = watched(self.source(given, config, **options), config)
            (found,) = settled(self._ended(run_many([flow])))
            yield from found.pieces(options) if isinstance(found, Source) else [found]

    async def _apieces(
        self, inputs: AsyncIterator[Any], config: RunnableConfig, **options: Any
    ) -> AsyncIterator[Any]:
        async for given in inputs:
            flow = watched(self.source(given, config, **options), config)
            (found,) = settled(self._ended(await arun_many([flow])))
            if not isinstance(found, Source):
                yield found
                continue
            async for piece in found.apieces(options):
                yield piece


def watched(flow: Flow[T], config: RunnableConfig) -> Flow[T]:
    """Trace a flow's calls of models as child runs; Runnables trace themselves.

    Args:
        flow: Flow to run.
        config: Config of the parent run.
    """
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


def _under(configs: Sequence[RunnableConfig], runs: Sequence[Any]) -> list[RunnableConfig]:
    pairs = zip(configs, runs, strict=True)
    return [patch_config(config, callbacks=run.get_child()) for config, run in pairs]
