"""Retrievers that are flows: one question, or a batch of them in lock step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list, merge_configs
from pydantic import ConfigDict, Field

from fitrag_integrations._checks import check_whole
from fitrag_integrations.flow import Flow, arun, run
from fitrag_integrations.langchain._convert import to_documents
from fitrag_integrations.langchain._fields import AnyRunnable, Count
from fitrag_integrations.langchain._ports import Offer
from fitrag_integrations.langchain._runnable import FlowBatches
from fitrag_integrations.ports import Method, Ports


class FlowRetriever(FlowBatches[str, list[Document]], BaseRetriever):
    """Answer every way a retriever is called from ``flows``."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    run_type: ClassVar[str | None] = "retriever"

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        (flow,) = self.flows([query], [config], k=k)
        found: list[Document] = run(flow).value
        return found

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        (flow,) = self.flows([query], [config], k=k)
        found: list[Document] = (await arun(flow)).value
        return found

    def configs(
        self, config: RunnableConfig | list[RunnableConfig] | None, count: int
    ) -> list[RunnableConfig]:
        """Add this retriever's tags and metadata, which ``invoke`` puts on its run by itself."""
        own: RunnableConfig = {"tags": self.tags or [], "metadata": self.metadata or {}}
        return [merge_configs(own, each) for each in get_config_list(config, count)]


class MethodOverBase(FlowRetriever):
    """Give the excerpts a method keeps of what ``base`` finds, as documents."""

    base: AnyRunnable = Field(exclude=True)
    """The retriever to start from: any Runnable from a question to documents."""

    k: Count | None = None
    """Documents to give at most, the first ones; also an argument of ``invoke``."""

    @abstractmethod
    def method_now(self) -> Method:
        """Give the method with the fields as they are at this call."""

    def offer(self) -> Offer:
        """Give the I/O the method may ask for."""
        return Offer.of(self.base)

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[list[Document]]]:
        """Give one flow per question; equal asks of one call join."""
        offer, method = self.offer(), self.method_now()
        pairs = zip(inputs, configs, strict=True)
        return [self._flow(query, method, offer.to(config), **options) for query, config in pairs]

    def _flow(
        self, query: str, method: Method, ports: Ports, k: int | None = None
    ) -> Flow[list[Document]]:
        most = self.k if k is None else check_whole("k", k, low=1)
        context = yield from method(query, ports)
        return to_documents(context)[:most]
