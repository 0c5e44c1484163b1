"""Run a flow over Documents as a compressor that hosts and traces can see.

LangChain's compressors are no Runnables and open no run, so here the work is done by a Runnable
that does, and the compressor's two methods call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, SkipValidation

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Traced, arun, run
from fitrag_integrations.langchain.base.convert import Documents, to_documents, to_passages
from fitrag_integrations.langchain.base.fields import Settings
from fitrag_integrations.langchain.base.runnable import FlowRunnable, question_of
from fitrag_integrations.langchain.base.tools import AskedOfDocuments
from fitrag_integrations.methods.explaining import Compression, Step, explained
from fitrag_integrations.types import Context, Passage

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class FlowCompressor(Settings, BaseDocumentCompressor):
    """Turn documents into passages, have a step of ``methods.plain`` keep some of them."""

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the excerpts to keep for ``query``."""
        return self.step().context(query, passages)

    def step(self) -> Step:
        """Return the step with the options as they are now."""
        return cast(Step, self.made(**self.settings()))

    def explain(self, documents: Sequence[Document], query: str) -> Compression:
        """Run it for `query`, and return what was kept and dropped, with the reasons.

        The `Compression` prints in a few lines with `explain()` and shows itself in a notebook.
        """
        return run(explained(self.step(), query, to_passages(documents))).value

    async def aexplain(self, documents: Sequence[Document], query: str) -> Compression:
        """Async version of `explain`."""
        return (await arun(explained(self.step(), query, to_passages(documents)))).value

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return new documents, best first; the ones given are not changed.

        A document whose text is blank cannot be scored and does not come back.
        """
        given = {"documents": documents, "question": query}
        return self.as_runnable().invoke(given, {"callbacks": callbacks})

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return new documents, best first, without blocking the event loop."""
        given = {"documents": documents, "question": query}
        return await self.as_runnable().ainvoke(given, {"callbacks": callbacks})

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> BaseTool:
        """Return a tool for agents, from a question and documents to the passages kept.

        Args:
            name: Name of the tool; None is the class's.
            description: When an agent is to call it; None is a sentence about it.

        Returns:
            A tool whose text is the numbered passages, and whose artifact the documents.
        """
        return self.as_runnable().as_tool(name=name, description=description)

    def as_runnable(self) -> Runnable[dict[str, Any], list[Document]]:
        """Return a Runnable from ``{"documents", "question"}`` to documents; its batch is one
        call.

        The question may be under any name that other Runnables here take, ``query`` among them.
        """
        return CompressorRunnable(name=type(self).__name__, compressor=self)


class CompressorRunnable(FlowRunnable[dict[str, Any], list[Document]]):
    """Compress the documents of ``{"documents", "question"}`` in a run of its own."""

    _use: ClassVar[str] = "Keep what matters in documents for a question."
    _takes: ClassVar[type[BaseModel]] = AskedOfDocuments
    compressor: SkipValidation[FlowCompressor]  # it was validated when it was made

    def flows(
        self,
        inputs: Sequence[dict[str, Any]],
        configs: Sequence[RunnableConfig],
        **options: object,
    ) -> list[Flow[Context]]:
        """Return one flow per input."""
        return [self._flow(given) for given in inputs]

    def result(self, traced: Traced[Context]) -> object:
        """Return the documents, which carry the run, or the exception the flow ended with."""
        return traced.error or Documents(to_documents(traced.value), traced)

    def _flow(self, given: dict[str, object]) -> Flow[Context]:
        if not isinstance(given, Mapping) or "documents" not in given:
            allowed = "a dict with 'documents' and 'question'"
            raise InputError.of("input", given=given, allowed=allowed)
        others = {name: value for name, value in given.items() if name != "documents"}
        question, passages = question_of(others), to_passages(given["documents"])
        return (yield from self.compressor.flow(question, passages))
