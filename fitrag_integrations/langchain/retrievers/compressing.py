"""Apply compressors to what a retriever finds, without langchain-classic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.convert import passage_document, to_passages
from fitrag_integrations.langchain.base.fields import AnyRunnable, Kept, runnable_of
from fitrag_integrations.langchain.base.ports import Backend
from fitrag_integrations.langchain.base.retriever import FlowRetriever
from fitrag_integrations.langchain.base.runnable import is_own
from fitrag_integrations.langchain.compressors import (
    BiLabelReranker,
    FlowCompressor,
    SubDocumentCompressor,
)
from fitrag_integrations.types import Context, Excerpt


class CompressingRetriever(FlowRetriever):
    """Retriever that passes what ``base`` returns through each compressor in turn.

    It is LangChain's ``ContextualCompressionRetriever`` without langchain-classic, and batches
    questions.

    Example:
        >>> steps = [BiLabelReranker(top_n=20), SubDocumentCompressor(max_tokens=800)]
        >>> CompressingRetriever(base=store.as_retriever(), compressors=steps).invoke("Who?")
    """

    base: Kept[AnyRunnable]
    """Retriever to start from: any Runnable or callable from a question to documents."""
    compressors: Kept[list[BaseDocumentCompressor]]
    """LangChain compressors, in the order in which they are applied."""

    @classmethod
    def from_fitted(cls, folder: str | Path, *, base: AnyRunnable, **given: Any) -> Self:
        """Rerank and compress with the settings that `fitrag fit` found best.

        Args:
            folder: Folder that `fitrag fit` wrote.
            base: Retriever to start from.
            **given: `llm` and `allow_other_model` of `BiLabelReranker.from_fitted`, and fields of
                both compressors, such as `scorer`.
        """
        kinds = (BiLabelReranker, SubDocumentCompressor)
        return cls(base=base, compressors=[one.from_fitted(folder, **given) for one in kinds])

    def documents(self, context: Context) -> list[Document]:
        """Return the documents as the last compressor gave them."""
        return [passage_document(excerpt.passage) for excerpt in context.excerpts]

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; equal asks of one call join.

        Args:
            inputs: The questions.
            configs: The config of each call, in the same order.
            **options: `k`, the maximum number of documents returned.
        """
        base = Backend(runnable_of(self.base), name="retrieve")
        steps = [Backend(_step(each), name="compress") for each in self.compressors]
        pairs = zip(inputs, configs, strict=True)
        return [_flow(query, config, base, steps) for query, config in pairs]


def _flow(
    query: str, config: RunnableConfig, base: Backend, steps: Sequence[Backend]
) -> Flow[Context]:
    documents = yield from base.ask(query, config)
    for step in steps:
        documents = yield from step.ask({"documents": list(documents), "query": query}, config)
    kept = map(Excerpt.whole, to_passages(documents))
    return Context(query, tuple(kept), method="compressing")


def _step(compressor: BaseDocumentCompressor) -> Runnable[Any, Any]:
    """Return a compressor as a Runnable: ours take a batch in one call, others one after
    another.
    """
    own = ("compress_documents", "acompress_documents")
    if isinstance(compressor, FlowCompressor) and is_own(type(compressor), *own):
        return compressor.as_runnable()

    def compress(given: dict[str, Any], config: RunnableConfig) -> Sequence[Document]:
        return compressor.compress_documents(**given, callbacks=config.get("callbacks"))

    async def acompress(given: dict[str, Any], config: RunnableConfig) -> Sequence[Document]:
        return await compressor.acompress_documents(**given, callbacks=config.get("callbacks"))

    return RunnableLambda(compress, acompress, name=type(compressor).__name__)
