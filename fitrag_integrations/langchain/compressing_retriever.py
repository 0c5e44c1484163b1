"""Apply compressors to what a retriever finds, without langchain-classic."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from fitrag_integrations._checks import check_whole
from fitrag_integrations.langchain._fields import AnyRunnable, Brief, Count


class CompressingRetriever(Brief, BaseRetriever):
    """Pass what ``base`` finds through each compressor in turn.

    ::

        CompressingRetriever(base=r, compressors=[BiLabelReranker(), SubDocumentCompressor()])
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    base: AnyRunnable = Field(exclude=True)
    """The retriever to start from: any Runnable from a question to documents."""

    compressors: list[BaseDocumentCompressor] = Field(exclude=True)
    """Any LangChain compressors, in the order in which they are applied."""

    k: Count | None = None
    """Documents to give at most, the first ones; also an argument of ``invoke``."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        most = self._most(k)
        documents = self.base.invoke(query, {"callbacks": run_manager.get_child()})
        for compressor in self.compressors:
            child = run_manager.get_child()
            documents = compressor.compress_documents(documents, query, callbacks=child)
        return list(documents)[:most]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        most = self._most(k)
        documents: Any = await self.base.ainvoke(query, {"callbacks": run_manager.get_child()})
        for compressor in self.compressors:
            child = run_manager.get_child()
            documents = await compressor.acompress_documents(documents, query, callbacks=child)
        return list(documents)[:most]

    def _most(self, k: int | None) -> int | None:
        return self.k if k is None else check_whole("k", k, low=1)
