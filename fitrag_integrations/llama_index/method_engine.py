"""A whole method as a query engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations.core.show import name_of
from fitrag_integrations.flow import Flow, arun, run
from fitrag_integrations.llama_index.base.component import bundles_of
from fitrag_integrations.llama_index.base.convert import context_nodes
from fitrag_integrations.llama_index.base.ports import Caller
from fitrag_integrations.llama_index.base.router import WritingRouter
from fitrag_integrations.methods.answering import Answering, read_port
from fitrag_integrations.ports import Method, Reader, check_method
from fitrag_integrations.types import Context


@dataclass(eq=False, repr=False)
class MethodQueryEngine(WritingRouter):
    """Query engine that answers from the context that a method finds.

    By default, if nothing was found, the prompt says so; if the method decided not to retrieve, the
    prompt asks for what the model knows. ``response.metadata["fitrag"]`` has the decision, the
    steps and the notes.

    Args:
        method: Method of this package or of your own: ``method(question, ports)`` returns a flow.
        retriever: Retriever that the method queries.
        search: Search provider, tool, retriever, or function, for a method that searches the web.
        llm: Language model that answers; ``Settings.llm`` if neither this nor ``reader`` is passed.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").
        reader: Object with ``read(pairs)`` that extracts the answer. ``llm`` then answers only if
            the method decided not to retrieve. The response is empty only if ``notes`` in the
            metadata give the reason.
        template: ``PromptTemplate`` of this package, or its name; or a LlamaIndex prompt or a text
            with ``{context_str}`` and ``{query_str}``, which are used only if the context is not
            empty.
        streaming: Whether the response streams; an extracted answer comes in one piece.

    Example:
        >>> retriever = index.as_retriever(similarity_top_k=50)
        >>> engine = MethodQueryEngine(FitRag(), retriever, llm=llm)
        >>> print(engine.query("Who designed the bridge?"))
    """

    method: Method
    retriever: Any
    _: KW_ONLY
    search: Any = None
    reader: Reader | None = None
    _prompt: ClassVar[tuple[str, bool]] = ("text_qa_template", False)

    def _prepare(self) -> None:
        super()._prepare()
        check_method(self.method)
        if self.reader is not None:
            read_port(self.reader)
        self._caller = Caller(self.retriever, self.search, self.llm, shots=self.shots)

    def __repr__(self) -> str:
        method, retriever = name_of(self.method), name_of(self.retriever)
        return f"{type(self).__name__}(method={method}, retriever={retriever})"

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the nodes a query would be answered from."""
        return context_nodes(run(self._contexts(bundles_of([query_bundle]))[0]).value)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Async version of `retrieve`."""
        return context_nodes((await arun(self._contexts(bundles_of([query_bundle]))[0])).value)

    def flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        """Return one flow per query.

        Args:
            bundles: Queries.
            alone: Whether it is a single query, whose answer may be a stream.
        """
        if alone and self._streams_tokens():
            return [*self._contexts(bundles, self._model())]
        ports = self._caller.ports(bundles, llm=self._model() if self.reader is None else None)
        answering = Answering(self.method, reader=self.reader, template=self._template)
        return [answering(bundle.query_str, ports) for bundle in bundles]

    def _contexts(self, bundles: Sequence[QueryBundle], llm: Any = None) -> list[Flow[Context]]:
        ports = self._caller.ports(bundles, llm=llm)
        return [self.method(bundle.query_str, ports) for bundle in bundles]

    def _streams_tokens(self) -> bool:
        return self.reader is None and super()._streams_tokens()
