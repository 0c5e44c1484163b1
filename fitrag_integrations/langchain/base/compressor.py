"""Run a flow over Documents as a compressor that hosts and traces can see.

LangChain's compressors are no Runnables and open no run, so here the work is done by a Runnable
that does, and the compressor's two methods call it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import ConfigDict

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Traced, arun, run
from fitrag_integrations.langchain.base.convert import Documents, to_documents, to_passages
from fitrag_integrations.langchain.base.fields import Brief
from fitrag_integrations.langchain.base.runnable import FlowRunnable, question_of
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.types import Context, Passage


class FlowCompressor(Brief, BaseDocumentCompressor):
    """Turn documents into passages, run ``flow`` on them and write new documents."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @abstractmethod
    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the excerpts to keep for ``query``."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Give new documents, best first; the ones given are not changed.

        A document whose text is blank cannot be scored and does not come back.
        """
        given = {"documents": documents, "question": query}
        return self.as_runnable().invoke(given, {"callbacks": callbacks})

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Give new documents, best first, without blocking the event loop."""
        given = {"documents": documents, "question": query}
        return await self.as_runnable().ainvoke(given, {"callbacks": callbacks})

    def as_runnable(self) -> Runnable[dict[str, Any], list[Document]]:
        """Give a Runnable from ``{"documents", "question"}`` to documents; its batch is one call.

        The question may be under any name that other Runnables here take, ``query`` among them.
        """
        return CompressorRunnable(name=type(self).__name__, compressor=self)


class CuttingCompressor(FlowCompressor):
    """Cut documents: each piece is a new document with an id of its own and its source's id."""

    @abstractmethod
    def explained(self, query: str, passages: Sequence[Passage]) -> Flow[Compression]:
        """Give the flow to what is kept for `query` and what is dropped, with the reasons."""

    def explain(self, documents: Sequence[Document], query: str) -> Compression:
        """Compress for `query`, and tell what was kept and dropped, why, and by how much.

        The `Compression` prints in a few lines with `explain()` and shows itself in a notebook.
        """
        return run(self.explained(query, to_passages(documents))).value

    async def aexplain(self, documents: Sequence[Document], query: str) -> Compression:
        """Do what `explain` does without blocking the event loop."""
        return (await arun(self.explained(query, to_passages(documents)))).value


class CompressorRunnable(FlowRunnable[dict[str, Any], list[Document]]):
    """Compress the documents of ``{"documents", "question"}`` in a run of its own."""

    compressor: FlowCompressor

    def flows(
        self,
        inputs: Sequence[dict[str, Any]],
        configs: Sequence[RunnableConfig],
        **options: Any,
    ) -> list[Flow[Context]]:
        """Give one flow per input."""
        return [self._flow(given) for given in inputs]

    def result(self, traced: Traced[Context]) -> Any:
        """Give the documents, which carry the run, or the exception the flow ended with."""
        return traced.error or Documents(to_documents(traced.value), traced)

    def _flow(self, given: dict[str, Any]) -> Flow[Context]:
        if not isinstance(given, Mapping) or "documents" not in given:
            allowed = "a dict with 'documents' and 'question'"
            raise InputError.of("input", given=given, allowed=allowed)
        others = {name: value for name, value in given.items() if name != "documents"}
        question, passages = question_of(others), to_passages(given["documents"])
        return (yield from self.compressor.flow(question, passages))
