"""Answer what the model knows by itself, and retrieve for the rest (IK; FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks import CallbackManager
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.llama_index.base.events import emit_decision
from fitrag_integrations.llama_index.base.models import check_model
from fitrag_integrations.llama_index.base.ports import generate_port
from fitrag_integrations.llama_index.base.router import (
    Handed,
    Routed,
    WritingRouter,
    check_engine,
    decided_context,
    engine_port,
)
from fitrag_integrations.llama_index.prompts import as_template
from fitrag_integrations.methods import adapting
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.ik.decider import Decider, OnError
from fitrag_integrations.ports import Gate
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.types import Template


@dataclass(frozen=True)
class _Answering:
    """Which questions are answered by whom, and how."""

    retrieve: BaseQueryEngine
    llm: Any
    streaming: bool
    template: Template | None

    def __post_init__(self) -> None:
        check_engine("retrieve", self.retrieve)
        check_is("streaming", self.streaming, bool)
        object.__setattr__(self, "template", as_template(self.template, alone=True))
        if self.llm is not None:
            generate_port(self.llm)


class KnowledgeRouterQueryEngine(FromFitted, WritingRouter):
    """Query engine whose language model answers what it knows; ``retrieve`` answers the rest (IK).

    The response to an unknown question is that of ``retrieve``, including streams.
    ``metadata["fitrag"]`` has the decision and the steps.

    Args:
        gate: Object with ``p_known(questions, drafts)``; None is the bundled one.
        retrieve: Query engine for unknown questions.
        llm: Language model for known ones; None is ``Settings.llm``.
        streaming: Whether the answer of ``llm`` streams.
        template: Prompt of ``llm``: a template of this package, its name, or one of LlamaIndex's
            with ``{query_str}``; None is FIT-RAG's no-retrieval prompt.
        drafter: Model that writes the draft that the gate reads; may be a LlamaIndex LLM.
        threshold: A question is known above this number, in [0, 1]; None is the gate's, or 0.5.
        on_error: "retrieve" retrieves if gate or drafter fails; "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        ThresholdMismatchError: If the threshold was fitted for another model than ``llm``.

    Example:
        >>> engine = KnowledgeRouterQueryEngine(gate, retrieve=index.as_query_engine(), llm=llm)
        >>> engine.query("Who designed the bridge?").metadata["fitrag"]["decision"]
    """

    _held: ClassVar[tuple[str, ...]] = ("_decider", "_answering")
    _prompt: ClassVar[tuple[str, bool]] = ("no_retrieval_template", True)

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        retrieve: BaseQueryEngine,
        llm: Any = None,
        streaming: bool = False,
        template: Template | BasePromptTemplate | str | None = None,
        drafter: object = None,
        threshold: float | None = None,
        on_error: OnError = "retrieve",
        allow_other_model: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._answering = _Answering(retrieve, llm, streaming, as_template(template, alone=True))
        self._decider = Decider(
            gate,
            drafter=drafter,
            threshold=threshold,
            on_error=on_error,
            allow_other_model=allow_other_model,
        )

    def __repr__(self) -> str:
        gate = "embedded" if self._decider.gate is None else adapting.name_of(self._decider.gate)
        engine = adapting.name_of(self._answering.retrieve)
        return f"{type(self).__name__}(gate={gate}, retrieve={engine})"

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"retrieve": self._answering.retrieve}

    def _flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        unknown = engine_port("unknown", self._answering.retrieve, alone=alone)
        # one for all questions, and none where none is known: there may be no language model
        write = cache(
            lambda: None if alone and self._streams_tokens() else generate_port(self._model())
        )
        return [self._flow(bundle, unknown, write) for bundle in bundles]

    def _flow(
        self,
        bundle: QueryBundle,
        unknown: Port[Handed, Any],
        write: Callable[[], Port[str, str] | None],
    ) -> Flow[Any]:
        """Decide, then ask; a known question whose answer will stream ends in its context."""
        check_model(self._decider, self._answering.llm)
        context = yield from decided_context(self._decider, bundle.query_str)
        if context.decision is not None and context.decision.retrieve:
            emit_decision(context)
            (response,) = yield from unknown.ask([Handed(bundle)])
            return Routed(context, response)
        port = write()
        if port is None:
            return context
        prompt = context.prompt(self._answering.template)
        (text,) = yield from port.ask([prompt])
        return Answered(strip_thoughts(text).strip(), context, prompt)
