"""Base classes of the retrievers, which run one flow per question, in lock step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    patch_config,
    run_in_executor,
    set_config_context,
)
from langchain_core.runnables.utils import coro_with_context

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.langchain.base.convert import (
    Documents,
    Ids,
    passage_document,
    to_documents,
)
from fitrag_integrations.langchain.base.fields import CONFIG, Count, Finder, Kept
from fitrag_integrations.langchain.base.ports import Offer, internal
from fitrag_integrations.langchain.base.runnable import FlowBatches, is_own
from fitrag_integrations.methods.metadata import noted
from fitrag_integrations.methods.settings import settled
from fitrag_integrations.ports import Method
from fitrag_integrations.types import Context

BLANK = "the query is blank: nothing was retrieved"


class FlowRetriever(FlowBatches[str, list[Document]], BaseRetriever):
    """Retriever that answers every kind of call from ``flows``, which end in a context.

    Each question is a separate retriever run, also in a batch, and passes its config on. A blank
    query, which agents sometimes send, finds nothing, and a note says so.
    """

    model_config = CONFIG
    _run: ClassVar[str] = "retriever"
    _alone: ClassVar[dict[str, tuple[str, ...]]] = {
        "batch": ("invoke", "_get_relevant_documents"),
        "abatch": ("ainvoke", "_aget_relevant_documents"),
    }

    k: Count | None = None
    """Maximum number of documents returned, best first; also an argument of `invoke`."""

    def documents(self, context: Context) -> list[Document]:
        """Convert what was found to documents: here, each passage whole."""
        return [passage_document(excerpt.passage) for excerpt in context.excerpts]

    def most(self, k: int | None = None) -> int | None:
        """Return the maximum number of documents, or None for no limit."""
        return self.k if k is None else check_whole("k", k, low=1)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> Documents:
        """Retrieve for one question, as `BaseRetriever` does, within the config."""
        config = ensure_config(config)
        given = {"run_id": config.get("run_id"), **kwargs}
        with set_config_context(config) as context:
            return cast(Documents, context.run(super().invoke, input, config, **given))

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Documents:
        """Async version of `invoke`."""
        config = ensure_config(config)
        given = {"run_id": config.get("run_id"), **kwargs}
        with set_config_context(config) as context:
            asked = super().ainvoke(input, config, **given)
            return cast(Documents, await coro_with_context(asked, context, create_task=True))

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        verbose: bool = False,
    ) -> list[Document]:
        config = patch_config(ensure_config(), callbacks=run_manager.get_child())
        return cast("list[Document]", settled(self._answered([query], [config], {"k": k}))[0])

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        verbose: bool = False,
    ) -> list[Document]:
        if not is_own(type(self), "_get_relevant_documents"):
            given: dict[str, Any] = {} if k is None else {"k": k}
            given["run_manager"] = run_manager.get_sync()
            return await run_in_executor(None, self._get_relevant_documents, query, **given)
        config = patch_config(ensure_config(), callbacks=run_manager.get_child())
        found = await self._aanswered([query], [config], {"k": k})
        return cast("list[Document]", settled(found)[0])

    def _watched(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], options: dict[str, Any]
    ) -> list[Flow[Context]]:
        """Return the flows, whose calls are marked as internal; a blank query asks for nothing."""
        kept = {name: value for name, value in options.items() if name != "verbose"}

        def limited(query: str, flow: Flow[Context]) -> Flow[Context]:
            most = self.most(**kept)
            if isinstance(query, str) and not query.strip():
                return Context(query, notes=(BLANK,))
            context = yield from flow
            return context if most is None else context.first(most)

        under = list(map(internal, configs))
        return list(map(limited, inputs, super()._watched(inputs, under, kept)))

    def result(self, traced: Traced[Context]) -> Documents | Exception:
        """Return the documents, which carry the run, or the exception that ended the flow."""
        return traced.error or Documents(self.documents(traced.value), traced)


class MethodOverBase(FlowRetriever):
    """Retriever of the excerpts that a method keeps from the documents of ``base``.

    The returned list, `Documents`, has the decisions of the run in ``context`` and ``explain()``.
    The documents themselves have only scores and places.
    """

    base: Kept[Finder]
    """Retriever to start from: any Runnable or callable from a question to documents."""
    ids: Ids = "pieces"
    """Id of a returned piece: a new one, or the id of its "source" for evaluators that match
    by it."""
    title_keys: Sequence[str] | None = None
    """Metadata keys whose values are read as a document's title, in this order; None are those of
    `TITLE_KEYS`."""

    def documents(self, context: Context) -> list[Document]:
        """Write the excerpts as documents, in their order."""
        return to_documents(context, self.ids)

    def offer(self) -> Offer:
        """Return the retrieval, search and generation that the method may call."""
        search, llm = (getattr(self, name, None) for name in ("search", "llm"))
        return Offer.of(self.base, search, llm, self.title_keys, getattr(self, "shots", ()))

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; equal requests of one call are joined."""
        offer = self._once("offer", self.offer)
        each = zip(self.methods(configs, **options), inputs, configs, strict=True)
        return [noted(method, query, offer.to(config)) for method, query, config in each]

    def methods(self, configs: Sequence[RunnableConfig], **options: Any) -> list[Method]:
        """Return the method of each question; one for all, unless its own models are Runnables.

        FIT-RAG returns the best piece of each document where documents are counted.
        """
        method = self.built()
        if self.most(**options) is not None:
            method = getattr(method, "one_each", method)
        return [method] * len(configs)
