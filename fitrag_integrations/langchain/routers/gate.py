"""Decide whether to retrieve, as a step of a chain or a node of a graph (IK, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, Field

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.conversation import Condensing, standalone
from fitrag_integrations.langchain.base.fields import Settings
from fitrag_integrations.langchain.base.models import check_model, is_language_model
from fitrag_integrations.langchain.base.options import DeciderOptions
from fitrag_integrations.langchain.base.ports import Backend, internal, text_of
from fitrag_integrations.langchain.base.runnable import FlowRunnable
from fitrag_integrations.langchain.base.tools import Decision
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.types import RetrievalDecision


class GateFields(FromFitted, Condensing, DeciderOptions, Settings):
    """Fields of a decision; read at each call.

    ``drafter`` may be a chat model or any other Runnable from a prompt to text.
    """

    question_key: str | None = Field(
        default=None,
        description=(
            'Key of the question in a dict; None looks for "question", "input", '
            '"query", "messages".'
        ),
    )

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
        """Return the options as they are now, with a port for a Runnable that drafts.

        Raises ``InputError`` for a language model that was given as the gate.
        """
        if isinstance(self.drafter, Runnable):
            port = Backend(self.drafter, text_of).port(RunnableConfig(), "draft")
            given = {"drafter": port, **given}
        if is_language_model(self.gate) or isinstance(self.gate, BaseCrossEncoder):
            allowed = "an object with a 'p_known' method, such as IKClassifier or AskGate"
            raise InputError.of("gate", given=self.gate, allowed=allowed)
        return super().settings(**given)


class RetrievalGate(GateFields, FlowRunnable[Any, dict[str, Any]]):
    """Runnable that returns ``{"retrieve", "p_known", "threshold", "why"}`` for a question (IK).

    The question is a text, a message, the last one of the user in a list of messages, or an entry
    of a dict. A batch calls the gate once.

    Args:
        gate: Object with ``p_known(questions, drafts)``; None is the bundled ``IKClassifier``.
        drafter: Model that writes the draft that the gate reads; any Runnable from a prompt to
            text.
        threshold: A question is known above this number, in [0, 1]; None is the gate's, or 0.5.
        condense: Language model or chain that makes one question of a conversation.
        question_key: Key of the question in a dict; None tries "question", "input", "query",
            "messages".

    The other options are those of ``fitrag_integrations.methods.Decider``.

    Example:
        >>> RetrievalGate(gate=gate).invoke("Who wrote the score of Amarcord?")["retrieve"]
    """

    _use: ClassVar[str] = "Decide whether a question needs retrieval, or is known without."
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
        deciders = [Decider(**self.settings())] * len(configs)
        if deciders and isinstance(self.drafter, Runnable):  # drafts under each question's config
            check_model(deciders[0], self.drafter)  # a port has no name
            llm = Backend(self.drafter, text_of)
            ports = [llm.port(internal(config), "draft") for config in configs]
            deciders = [Decider(**self.settings(drafter=port)) for port in ports]
        return [self._flow(*each) for each in zip(inputs, deciders, configs, strict=True)]

    def _flow(
        self, given: object, decider: Decider, config: RunnableConfig
    ) -> Flow[dict[str, Any]]:
        key, condense = self.question_key, self.condense
        question, notes = yield from standalone(given, key, condense, config)
        decided = (yield from decider(question)).decision.to_dict()
        return {**decided, "why": "; ".join([decided["why"], *notes])}
