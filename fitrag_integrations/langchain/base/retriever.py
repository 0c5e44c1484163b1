"""Retrievers that are flows: one question, or a batch of them in lock step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list, patch_config
from pydantic import BaseModel, ConfigDict, Field

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.flow import Flow, Traced, arun_many, run_many
from fitrag_integrations.langchain.base.convert import Documents, Ids, to_documents
from fitrag_integrations.langchain.base.fields import (
    AnyModel,
    AnyRunnable,
    Count,
    Settings,
)
from fitrag_integrations.langchain.base.ports import Offer, internal
from fitrag_integrations.langchain.base.runnable import FlowBatches, watched
from fitrag_integrations.langchain.base.tools import Query
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context

BLANK = "the query is blank: nothing was retrieved"


class FlowRetriever(FlowBatches[str, list[Document]], BaseRetriever):
    """Answer every way a retriever is called from ``flows``, which end in a context.

    Each question is a retriever run of its own, also in a batch, and hands its config on. A blank
    query, as agents write them, finds nothing; a note says so.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _use: ClassVar[str] = "Find passages that help to answer a question."
    _takes: ClassVar[type[BaseModel]] = Query

    k: Count | None = Field(
        default=None,
        description=(
            "Maximum number of documents returned, best first; also an argument of `invoke`."
        ),
    )

    def documents(self, context: Context) -> list[Document]:
        """Write what was found as documents."""
        return to_documents(context)

    def most(self, k: int | None = None) -> int | None:
        """Return the number of documents asked for, None where there is no limit."""
        return self.k if k is None else check_whole("k", k, low=1)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> Documents:
        """Retrieve for one question."""
        return cast(Documents, self.batch([input], config, **kwargs)[0])

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Documents:
        """Retrieve for one question without blocking the event loop."""
        return cast(Documents, (await self.abatch([input], config, **kwargs))[0])

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Retrieve for several questions with joined calls; results in their order."""
        configs = get_config_list(config, len(inputs))
        runs = [self._begun(CallbackManager, *each) for each in zip(inputs, configs, strict=True)]
        traces = self._noted(run_many(self._flows(inputs, configs, runs, **kwargs)))
        outcomes = [self._outcome(traced, **kwargs) for traced in traces]
        for run, outcome in zip(runs, outcomes, strict=True):
            _end(run, outcome)
        return _settled(outcomes, return_exceptions)

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Retrieve for several questions with joined calls; results in their order."""
        configs, kind = get_config_list(config, len(inputs)), AsyncCallbackManager
        runs = [await self._begun(kind, *each) for each in zip(inputs, configs, strict=True)]
        traces = self._noted(await arun_many(self._flows(inputs, configs, runs, **kwargs)))
        outcomes = [self._outcome(traced, **kwargs) for traced in traces]
        for run, outcome in zip(runs, outcomes, strict=True):
            await _end(run, outcome)
        return _settled(outcomes, return_exceptions)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self.invoke(query, {"callbacks": run_manager.get_child()}, k=k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self.ainvoke(query, {"callbacks": run_manager.get_child()}, k=k)

    def _begun(self, kind: Any, query: str, config: RunnableConfig) -> Any:
        """Start a retriever run of one question, as ``BaseRetriever`` does."""
        manager = kind.configure(
            inheritable_callbacks=config.get("callbacks"),
            inheritable_tags=config.get("tags"),
            local_tags=self.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **self._get_ls_params()},
            local_metadata=self.metadata,
        )
        name = config.get("run_name") or self.get_name()
        return manager.on_retriever_start(None, query, name=name, run_id=config.get("run_id"))

    def _flows(
        self,
        queries: Sequence[str],
        configs: Sequence[RunnableConfig],
        runs: Sequence[Any],
        **options: Any,
    ) -> list[Flow[Context]]:
        """Return the flows, each under its own run; a blank query asks for nothing.

        What they ask for is no answer, and so marked as internal.
        """
        under = [
            internal(patch_config(config, callbacks=run.get_child()))
            for config, run in zip(configs, runs, strict=True)
        ]
        try:
            self.most(**options)
            flows = self.flows(queries, under, **options)
        except Exception as error:  # noqa: BLE001 - a wrong option is every question's
            return [_ended(error) for _ in queries]
        return [
            _ended(Context(query, notes=(BLANK,)))
            if isinstance(query, str) and not query.strip()
            else watched(flow, config)
            for query, flow, config in zip(queries, flows, under, strict=True)
        ]

    def _outcome(self, traced: Traced[Context], k: int | None = None) -> Documents | Exception:
        if traced.error is not None:
            return traced.error
        return Documents(self.documents(traced.value)[: self.most(k)], traced)


class MethodOverBase(FlowRetriever):
    """Retriever of the excerpts that a method keeps from the documents of ``base``.

    What the run decided is on the list that comes back, `Documents`: its ``context`` and
    ``explain()``; the documents themselves carry scores and places only.
    """

    base: AnyRunnable = Field(
        exclude=True,
        description="Retriever to start from: any Runnable from a question to documents.",
    )

    ids: Ids = Field(
        default="pieces",
        description=(
            'Id of a returned piece: one of its own, or the id of its "source" for '
            "evaluators that match by it."
        ),
    )

    @abstractmethod
    def method_now(self, **options: object) -> Method:
        """Return the method with the fields as they are at this call."""

    def documents(self, context: Context) -> list[Document]:
        """Write the excerpts as documents, in their order."""
        return to_documents(context, self.ids)

    def offer(self) -> Offer:
        """Return the I/O the method may ask for."""
        return Offer.of(self.base, getattr(self, "search", None), getattr(self, "llm", None))

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; equal asks of one call join."""
        offer, pairs = self.offer(), list(zip(inputs, configs, strict=True))
        methods = self.methods(configs, **options)
        return [
            _begun(method, query, offer.to(config))
            for (query, config), method in zip(pairs, methods, strict=True)
        ]

    def methods(self, configs: Sequence[RunnableConfig], **options: object) -> list[Method]:
        """Return the method of each question, one for all unless it has models that are asked."""
        return [self.method_now(**options)] * len(configs)


class Writing(MethodOverBase):
    """Offer a language model as well."""

    llm: AnyRunnable | None = Field(
        default=None,
        exclude=True,
        description="Language model or chain for methods that generate text.",
    )


class Searching(Writing):
    """Offer a web search as well."""

    search: AnyModel = Field(
        default=None,
        description="Search tool, provider, Runnable or callable; None turns web search off.",
    )


class DerivedRetriever(Settings, MethodOverBase):
    """Run the method whose options the fields are."""

    def method_now(self, **options: object) -> Method:
        """Return the method with the fields as they are at this call."""
        return cast(Method, self.made(**self.settings()))


def _begun(method: Method, query: str, ports: Ports) -> Flow[Context]:
    return (yield from method(query, ports))  # a call that fails is its own question's alone


def _ended(outcome: Context | Exception) -> Flow[Context]:
    yield from ()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _end(run: Any, outcome: Documents | Exception) -> Any:
    failed = isinstance(outcome, Exception)
    return run.on_retriever_error(outcome) if failed else run.on_retriever_end(outcome)


def _settled(outcomes: list[Any], return_exceptions: bool = False) -> list[object]:
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not return_exceptions:
            raise outcome
    return outcomes
