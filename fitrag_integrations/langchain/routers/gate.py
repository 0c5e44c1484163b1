"""Decide whether to retrieve, as a step of a chain or a node of a graph (IK, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, Field

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.conversation import Condensing, standalone
from fitrag_integrations.langchain.base.fields import AnyRunnable, Kept
from fitrag_integrations.langchain.base.models import check_model, is_language_model
from fitrag_integrations.langchain.base.ports import Backend, internal, text_of
from fitrag_integrations.langchain.base.runnable import FlowRunnable
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Gate
from fitrag_integrations.types import RetrievalDecision


class Decision(BaseModel):
    """Output of a gate."""

    retrieve: bool = Field(description="Whether to retrieve for the question.")
    p_known: float | None = Field(description="Probability that the model knows the answer.")
    threshold: float | None = Field(description="Probability above which it counts as known.")
    why: str = Field(description="The reason in one sentence.")


class GateFields(FromFitted, Condensing):
    """Fields of a decision; read at each call."""

    made: ClassVar[type[Decider]] = Decider

    gate: Kept[Gate | None] = None
    """Object with `p_known(questions, drafts)`; None is `AskGate(llm)`."""
    drafter: Kept[Any] = None
    """Writes the draft that the gate reads: a chat model or another Runnable, a `Drafter`, an
    object with `generate`, a callable, or a `Port`; None is the gate's own. It is called only if
    the gate's `draft_tokens` is not 0."""
    threshold: float | None = None
    """A question is known above this number, in [0, 1]; None is the gate's, or 0.5."""
    on_error: Literal["retrieve", "raise"] = "retrieve"
    """Where gate or drafter fails or the draft is blank: "retrieve" decides to retrieve, and `why`
    names the failure; "raise" raises it."""
    allow_other_model: bool = False
    """Accept a threshold that was fitted for another model."""
    llm: Kept[AnyRunnable | None] = None
    """Language model that is asked whether it knows the answer where there is no gate."""

    def decide(self, question: object, config: RunnableConfig | None = None) -> RetrievalDecision:
        """Check whether to retrieve for a question, in any form, and why."""
        return RetrievalDecision.from_dict(self._asker().invoke(question, config))

    async def adecide(
        self, question: object, config: RunnableConfig | None = None
    ) -> RetrievalDecision:
        """Async version of `decide`."""
        return RetrievalDecision.from_dict(await self._asker().ainvoke(question, config))

    def _asker(self) -> RetrievalGate:
        return RetrievalGate(**{name: own for name, own in self if name in GateFields.model_fields})

    def settings(self, **given: object) -> dict[str, Any]:
        """Return the options as they are now, with ports for the Runnables that are asked.

        Raises ``InputError`` for a language model that was given as the gate.
        """
        asked = {**_ports(self._backends(), RunnableConfig()), **given}
        if is_language_model(self.gate) or isinstance(self.gate, BaseCrossEncoder):
            allowed = "an object with a 'p_known' method; a language model goes in llm="
            raise InputError.of("gate", given=self.gate, allowed=allowed)
        return super().settings(**asked)

    def _backends(self) -> dict[str, Backend]:
        return {
            name: Backend(each, text_of)
            for name, each in self
            if name in ROLES and isinstance(each, Runnable)
        }


ROLES = {"drafter": "draft", "llm": "generate"}  # and their ports' names


def _ports(backends: dict[str, Backend], config: RunnableConfig) -> dict[str, object]:
    return {name: each.port(config, ROLES[name]) for name, each in backends.items()}


class RetrievalGate(GateFields, FlowRunnable[Any, dict[str, Any]]):
    """Runnable that returns ``{"retrieve", "p_known", "threshold", "why"}`` for a question (IK).

    The question is a text, a message, the last one of the user in a list of messages, or an entry
    of a dict. A batch calls the gate once.

    Example:
        >>> RetrievalGate(gate=gate).invoke("Who wrote the score of Amarcord?")["retrieve"]
    """

    _gives: ClassVar[type[BaseModel]] = Decision

    def _asker(self) -> RetrievalGate:
        return self

    def flows(
        self, inputs: Sequence[object], configs: Sequence[RunnableConfig], **options: object
    ) -> list[Flow[dict[str, Any]]]:
        """Return one flow per question; equal asks of one call join.

        Args:
            inputs: Questions, dicts with one, or messages.
            configs: The config of each call, in the same order.
            **options: Not used.
        """
        backends = self._backends()
        asked = [_ports(backends, internal(config)) for config in configs]  # each under its own
        deciders = [Decider(**self.settings(**ports)) for ports in asked]
        if deciders and "drafter" in backends:
            check_model(deciders[0], self.drafter)  # a port has no name
        return list(map(self._flow, inputs, deciders, configs))

    def _flow(
        self, given: object, decider: Decider, config: RunnableConfig
    ) -> Flow[dict[str, Any]]:
        key, condense = self.question_key, self.condense
        question, notes = yield from standalone(given, key, condense, config)
        decided = (yield from decider(question)).decision.to_dict()
        return {**decided, "why": "; ".join([decided["why"], *notes])}
