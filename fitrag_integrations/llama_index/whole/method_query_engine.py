"""Run a method as a query engine: retrieve, decide, reduce and answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.settings import Settings

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.flow import Flow, arun, arun_many, run, run_many
from fitrag_integrations.llama_index.base.convert import context_nodes
from fitrag_integrations.llama_index.base.events import dispatcher, tell_answered, tell_asked
from fitrag_integrations.llama_index.base.fields import Configured
from fitrag_integrations.llama_index.base.fitting import FromFitted
from fitrag_integrations.llama_index.base.models import astream, stream
from fitrag_integrations.llama_index.base.ports import Caller, bundle_of, bundles_of, settled
from fitrag_integrations.llama_index.base.response import response_of
from fitrag_integrations.llama_index.base.router import aonce, once, query_event
from fitrag_integrations.llama_index.prompts import Written, as_template
from fitrag_integrations.methods.adapting import check_method, name_of
from fitrag_integrations.methods.answer.answering import Answered, Answering, own_answer, read_port
from fitrag_integrations.ports import Method, Reader
from fitrag_integrations.types import Context, Template


@dataclass(frozen=True)
class _Answering:
    """Hold the method, and how its answer is written."""

    method: Method
    reader: Reader | None
    template: Template | None
    streaming: bool

    def __post_init__(self) -> None:
        check_method(self.method)
        if self.reader is not None:
            read_port(self.reader)
        object.__setattr__(self, "template", as_template(self.template))
        check_is("streaming", self.streaming, bool)


class MethodQueryEngine(FromFitted, Configured, BaseQueryEngine):
    """Answer with a method's context; where it holds nothing, the model is asked all the same.

    ``method`` asks ``retriever`` and, where it searches the web, ``search``.
    ``reader`` extracts the answer in place of ``llm``, which is ``Settings.llm`` where neither is
    given; its text is empty only where ``notes`` in the metadata say why. ``template`` is a
    ``PromptTemplate`` of this package or the name of one, or one of LlamaIndex's or a text with
    ``{context_str}`` and ``{query_str}``, used where there is something to refer to. With
    ``streaming`` the response streams; an extracted answer comes in one piece.
    ``response.metadata["fitrag"]`` says what was decided and which steps were taken.
    """

    _held: ClassVar[tuple[str, ...]] = ("_answering", "_caller")

    def __init__(
        self,
        method: Method,
        retriever: Any,
        *,
        search: Any = None,
        llm: Any = None,
        reader: Reader | None = None,
        template: Template | BasePromptTemplate | str | None = None,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._caller = Caller(retriever, search, llm)
        self._answering = _Answering(method, reader, as_template(template), streaming)

    def __repr__(self) -> str:
        method, retriever = name_of(self._answering.method), name_of(self._caller.base)
        return f"{type(self).__name__}(method={method}, retriever={retriever})"

    def _get_prompts(self) -> PromptDictType:
        if isinstance(self._answering.template, Written):
            return {"text_qa_template": self._answering.template.prompt}
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        if "text_qa_template" in prompts:
            self.template = Written(prompts["text_qa_template"])

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Give the nodes a query would be answered from."""
        return context_nodes(run(self._contexts([bundle_of(query_bundle)])[0]).value)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Give the nodes a query would be answered from."""
        traced = await arun(self._contexts([bundle_of(query_bundle)])[0])
        return context_nodes(traced.value)

    def explain(self, query: QueryType | None = None) -> str:
        """Tell what was asked, what came back and what was answered, for ``query`` or last time."""
        if query is not None:
            self._noted(run_many(self._answers(bundles_of([query]))))
        return self._told()

    @dispatcher.span
    def query_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Answer all queries in lock step: their asks to one model make one batch.

        Gives a response per query, never a streaming one. The first failure is raised, or, with
        ``return_exceptions``, stands in the place of its query's response.
        """
        bundles = bundles_of(queries)
        tell_asked(bundles)
        traces = self._noted(run_many(self._answers(bundles)))
        return _told(bundles, traces, return_exceptions)

    @dispatcher.span
    async def aquery_many(
        self, queries: Sequence[QueryType], *, return_exceptions: bool = False
    ) -> list[Any]:
        """Answer all queries in lock step, as ``query_many``."""
        bundles = bundles_of(queries)
        tell_asked(bundles)
        traces = self._noted(
            await arun_many(self._answers(bundles))
        )  # many nodes take their time to make, too
        return await asyncio.to_thread(_told, bundles, traces, return_exceptions)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with query_event(self.callback_manager, query_bundle) as ended:
            if self._streams_tokens():
                (context,) = self._noted([run(self._contexts([query_bundle], self._model())[0])])
                prompt, own = (
                    context.value.prompt(self._answering.template),
                    own_answer(context.value),
                )
                words = once(own) if own else stream(self._model(), prompt)
                return ended(response_of(context, words))
            (answer,) = self._noted([run(self._answers([query_bundle])[0])])
            tokens = once(answer.value.text) if self._answering.streaming else None
            return ended(response_of(answer, tokens))

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with query_event(self.callback_manager, query_bundle) as ended:
            if self._streams_tokens():
                flow = self._contexts([query_bundle], self._model())[0]
                (context,) = self._noted([await arun(flow)])
                prompt, own = (
                    context.value.prompt(self._answering.template),
                    own_answer(context.value),
                )
                words = aonce(own) if own else await astream(self._model(), prompt)
                return ended(response_of(context, words))
            (answer,) = self._noted([await arun(self._answers([query_bundle])[0])])
            tokens = aonce(answer.value.text) if self._answering.streaming else None
            return ended(response_of(answer, tokens))

    def _contexts(self, bundles: Sequence[QueryBundle], llm: Any = None) -> list[Flow[Context]]:
        ports = self._caller.ports(bundles, llm=llm)
        return [self._answering.method(bundle.query_str, ports) for bundle in bundles]

    def _answers(self, bundles: Sequence[QueryBundle]) -> list[Flow[Answered]]:
        ports = self._caller.ports(bundles, llm=None if self._extracts() else self._model())
        given = self._answering
        answering = Answering(given.method, reader=given.reader, template=given.template)
        return [answering(bundle.query_str, ports) for bundle in bundles]

    def _model(self) -> Any:
        return Settings.llm if self._caller.llm is None else self._caller.llm

    def _streams_tokens(self) -> bool:
        return self._answering.streaming and not self._extracts() and isinstance(self._model(), LLM)

    def _extracts(self) -> bool:
        return self._answering.reader is not None


def _told(bundles: list[QueryBundle], traces: list[Any], return_exceptions: bool) -> list[Any]:
    settled(traces, return_exceptions)
    responses = [traced.error or response_of(traced) for traced in traces]
    tell_answered(bundles, responses)
    return responses
