"""Answer what the model knows by itself, and retrieve for the rest (IK; FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cache
from typing import Any, ClassVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle

from fitrag_integrations.core.show import name_of
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.llama_index.base.events import emit_decision
from fitrag_integrations.llama_index.base.ports import check_model, generate_port
from fitrag_integrations.llama_index.base.router import (
    Deciding,
    Handed,
    Routed,
    WritingRouter,
    check_engine,
    engine_port,
)
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.text.replies import strip_thoughts


@dataclass(eq=False, repr=False, kw_only=True)
class KnowledgeRouterQueryEngine(Deciding, WritingRouter):
    """Query engine whose language model answers what it knows; ``retrieve`` answers the rest (IK).

    The response to an unknown question is that of ``retrieve``, including streams.
    ``metadata["fitrag"]`` has the decision and the steps.

    Args:
        gate: Object with ``p_known(questions, drafts)``; None is ``AskGate(llm)``.
        retrieve: Query engine for unknown questions.
        llm: Language model for known ones, which says what it knows where there is no gate; None is
            ``Settings.llm``.
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

    retrieve: InitVar[BaseQueryEngine] = field()  # an engine's own `retrieve` is a method
    _prompt: ClassVar[tuple[str, bool]] = ("no_retrieval_template", True)

    def __post_init__(self, retrieve: BaseQueryEngine) -> None:
        self._engine = check_engine("retrieve", retrieve)
        super().__post_init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "retrieve":  # an option, too, though it is read as the engine's method
            name, value = "_engine", check_engine("retrieve", value)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        gate = "AskGate" if self.gate is None else name_of(self.gate)
        return f"{type(self).__name__}(gate={gate}, retrieve={name_of(self._engine)})"

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"retrieve": self._engine}

    def flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        """Return one flow per query of ``bundles``; ``alone``, its answer may be a stream."""
        unknown = engine_port("unknown", self._engine, alone=alone)
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
        check_model(self._decider, self.llm)
        context = yield from self.decided(bundle.query_str)
        if context.decision is not None and context.decision.retrieve:
            emit_decision(context)
            (response,) = yield from unknown.ask([Handed(bundle)])
            return Routed(context, response)
        port = write()
        if port is None:
            return context
        prompt = context.prompt(self._template)
        (text,) = yield from port.ask([prompt])
        return Answered(strip_thoughts(text).strip(), context, prompt)
