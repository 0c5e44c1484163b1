"""Answer what the model knows by itself, and retrieve for the rest (IK; FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import QueryBundle
from llama_index.core.settings import Settings

from fitrag_integrations._checks import check_is
from fitrag_integrations.flow import Flow, Port, Traced
from fitrag_integrations.llama_index._deciding import decided_context, decider_of
from fitrag_integrations.llama_index._engine import Routed, Router, aonce, once, reported
from fitrag_integrations.llama_index._engine_port import Handed, check_engine, engine_port
from fitrag_integrations.llama_index._llm import astream, generate_port, stream
from fitrag_integrations.llama_index._response import response_of
from fitrag_integrations.llama_index.events import tell_decided
from fitrag_integrations.methods import adapting
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.methods.deciding import OnError
from fitrag_integrations.ports import Gate
from fitrag_integrations.types import Context, Template


class KnowledgeRouterQueryEngine(Router):
    """Have the language model answer what it knows; ``retrieve``, an engine, answers the rest.

    A known question goes to ``llm``, ``Settings.llm`` where None, with FIT-RAG's no-retrieval
    prompt or ``template``: one of this package, its name, or one of LlamaIndex's with
    ``{query_str}``; with ``streaming`` its answer streams. Of any other question the response is
    that of ``retrieve``, streams and all. Either way ``metadata["fitrag"]`` says what was decided
    and which steps were taken. ``gate`` None is the embedded one; ``drafter`` may be a LlamaIndex
    LLM, such as ``llm`` itself. The rest is as in ``fitrag_integrations.methods.Decider``.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        retrieve: BaseQueryEngine,
        llm: Any = None,
        drafter: Any = None,
        threshold: float | None = None,
        streaming: bool = False,
        template: Template | BasePromptTemplate | str | None = None,
        on_error: OnError = "retrieve",
        allow_other_model: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        self._decider = decider_of(
            gate,
            drafter=drafter,
            threshold=threshold,
            on_error=on_error,
            allow_other_model=allow_other_model,
        )
        self._retrieve = check_engine("retrieve", retrieve)
        if llm is not None:
            generate_port(llm)
        self._llm = llm
        self._streaming = check_is("streaming", streaming, bool)
        self._template = _template_of(template)
        super().__init__(callback_manager=callback_manager)

    def __repr__(self) -> str:
        gate = "embedded" if self._decider.gate is None else adapting.name_of(self._decider.gate)
        return f"{type(self).__name__}(gate={gate}, retrieve={adapting.name_of(self._retrieve)})"

    def _get_prompts(self) -> PromptDictType:
        if isinstance(self._template, _QuestionTemplate):
            return {"no_retrieval_template": self._template.prompt}
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        if "no_retrieval_template" in prompts:
            self._template = _QuestionTemplate(prompts["no_retrieval_template"])

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"retrieve": self._retrieve}

    def _flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        unknown = engine_port("unknown", self._retrieve, alone=alone)
        # one for all questions, and none where none is known: there may be no language model
        write = cache(lambda: None if alone and self._streams_tokens() else self._written())
        return [self._flow(bundle, unknown, write) for bundle in bundles]

    def _flow(
        self,
        bundle: QueryBundle,
        unknown: Port[Handed, Any],
        write: Callable[[], Port[str, str] | None],
    ) -> Flow[Any]:
        """Decide, then ask; a known question whose answer will stream ends in its context."""
        context = yield from decided_context(self._decider, bundle.query_str)
        if context.decision is not None and context.decision.retrieve:
            tell_decided(context)
            (response,) = yield from unknown.ask([Handed(bundle)])
            return Routed(context, response)
        port = write()
        if port is None:
            return context
        prompt = context.prompt(self._template)
        (text,) = yield from port.ask([prompt])
        return Answered(text.strip(), context, prompt)

    def _response(self, traced: Traced[Any], *, alone: bool = False) -> RESPONSE_TYPE:
        outcome = traced.value
        if isinstance(outcome, Routed):
            return reported(traced)
        if isinstance(outcome, Context):
            return response_of(traced, stream(self._model(), outcome.prompt(self._template)))
        return response_of(traced, once(outcome.text) if alone and self._streaming else None)

    async def _aresponse(self, traced: Traced[Any]) -> RESPONSE_TYPE:
        outcome = traced.value
        if isinstance(outcome, Routed):
            return reported(traced)
        if isinstance(outcome, Context):
            prompt = outcome.prompt(self._template)
            return response_of(traced, await astream(self._model(), prompt))
        return response_of(traced, aonce(outcome.text) if self._streaming else None)

    def _model(self) -> Any:
        return Settings.llm if self._llm is None else self._llm

    def _written(self) -> Port[str, str]:
        return generate_port(self._model())

    def _streams_tokens(self) -> bool:
        return self._streaming and isinstance(self._model(), LLM)


@dataclass(frozen=True)
class _QuestionTemplate:
    """Write a question with a LlamaIndex prompt; there are no passages to refer to."""

    prompt: BasePromptTemplate

    def render(self, context: Context) -> str:
        """Fill ``{query_str}``."""
        return self.prompt.format(query_str=context.question, context_str="")


def _template_of(template: Any) -> Template | None:
    is_theirs = isinstance(template, BasePromptTemplate)
    return _QuestionTemplate(template) if is_theirs else adapting.template_of(template)
