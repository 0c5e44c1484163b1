"""Decide whether to retrieve, as a step of a chain or a node of a graph (IK, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import model_validator

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain._fields import AnyModel, Brief
from fitrag_integrations.langchain._ports import Backend, text_of
from fitrag_integrations.langchain._questions import question_of
from fitrag_integrations.langchain._runnable import FlowRunnable
from fitrag_integrations.methods.deciding import Decider
from fitrag_integrations.types import RetrievalDecision


class GateFields(Brief):
    """Hold what a decision is made with; read at call time."""

    gate: AnyModel = None
    """An object with ``p_known(questions, drafts)``; None is the embedded gate."""

    drafter: AnyModel = None
    """What writes the draft for a gate that wants one: a ``Drafter``, or a language model."""

    threshold: float | None = None
    """A question is known above it; None is the gate's own, or 0.5."""

    on_error: Literal["retrieve", "raise"] = "retrieve"
    """What to do when the gate or its drafter fails: retrieve, and say why, or raise it."""

    allow_other_model: bool = False
    """Accept a threshold that was fitted for another model than the drafter."""

    question_key: str | None = None
    """Where a dict has its question; None looks for "question", "input" and "query"."""

    def gate_arguments(self) -> dict[str, Any]:
        """Give what a ``RetrievalGate`` is made of."""
        return {name: getattr(self, name) for name in GateFields.model_fields}

    @model_validator(mode="after")
    def _check_gate(self) -> Self:
        """Tell of a wrong argument here rather than at the first question."""
        self._deciders([RunnableConfig()])
        return self

    def _deciders(self, configs: Sequence[RunnableConfig]) -> list[Decider]:
        """Give one decider per question, whose drafts are written under that question's config."""
        names = ("threshold", "on_error", "allow_other_model")
        values = {name: getattr(self, name) for name in names}
        if not isinstance(self.drafter, Runnable):
            return [Decider(self.gate, drafter=self.drafter, **values)] * len(configs)
        llm = Backend(self.drafter, text_of)
        ports = [llm.port("draft", config) for config in configs]
        return [Decider(self.gate, drafter=port, **values) for port in ports]


class RetrievalGate(GateFields, FlowRunnable[Any, dict[str, Any]]):
    """Give ``{"retrieve", "p_known", "threshold", "why"}`` for a question.

    The question is a text, a message, or an entry of a dict. A batch is one call of the gate::

        RetrievalGate(gate=ik).invoke("Who wrote the score of Amarcord?")["retrieve"]
    """

    def decide(self, question: Any, config: RunnableConfig | None = None) -> RetrievalDecision:
        """Decide for one question."""
        return RetrievalDecision.from_dict(self.invoke(question, config))

    async def adecide(
        self, question: Any, config: RunnableConfig | None = None
    ) -> RetrievalDecision:
        """Decide for one question without blocking the event loop."""
        return RetrievalDecision.from_dict(await self.ainvoke(question, config))

    def flows(
        self, inputs: Sequence[Any], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[dict[str, Any]]]:
        """Give one flow per question; equal asks of one call join."""
        pairs = zip(inputs, self._deciders(configs), strict=True)
        return [self._flow(given, decider) for given, decider in pairs]

    def _flow(self, given: Any, decider: Decider) -> Flow[dict[str, Any]]:
        decided = yield from decider(question_of(given, self.question_key))
        return decided.decision.to_dict()
