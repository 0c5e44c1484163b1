"""Answer what the model knows by itself, and retrieve for the rest (IK; FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from typing import Self

from langchain_core.runnables import RunnableConfig, RunnableLambda
from pydantic import model_validator

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.fields import AnyRunnable, Kept, runnable_of
from fitrag_integrations.langchain.base.models import check_model
from fitrag_integrations.langchain.base.ports import Backend, internal, text_of
from fitrag_integrations.langchain.base.router import Chosen, Route, Router
from fitrag_integrations.langchain.base.runnable import question_of
from fitrag_integrations.langchain.routers.gate import GateFields
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.methods.prompts import NO_RETRIEVAL
from fitrag_integrations.types import Context


class KnowledgeRouter(GateFields, Router):
    """Runnable that sends a known question to ``known`` and any other to ``unknown``, with
    streaming (IK).

    The branch receives the input unchanged. The decision is a run of its own, ``RetrievalGate``,
    and is in the metadata of the branch's runs as ``fitrag``. A batch calls gate and each branch
    once.

    Raises:
        ThresholdMismatchError: If the threshold was fitted for another model than the one that
            answers, unless ``allow_other_model``.

    Example:
        >>> router = KnowledgeRouter(gate=gate, llm=llm, unknown=chain)
        >>> for piece in router.stream("Who designed the bridge?"): ...
    """

    known: Kept[AnyRunnable | None] = None
    """Runnable that answers without retrieval; None is `llm` with FIT-RAG's no-retrieval prompt."""
    unknown: Kept[AnyRunnable]
    """Runnable that answers with retrieval."""
    llm: Kept[AnyRunnable | None] = None
    """Language model for the defaults of `known`, whose answers are returned as text, and of
    `gate`."""

    def route(self, **options: object) -> Route:
        """Return the flow's choice: ``known`` or ``unknown``."""
        check_model(Decider(**self.settings()), self.llm if self.known is None else self.known)
        gate = Backend(self._asker(), name="gate")
        branches = {
            False: self._known(options),
            True: Backend(runnable_of(self.unknown), name="unknown", options=options),
        }

        def chosen(given: object, config: RunnableConfig) -> Flow[Chosen]:
            question_of(given, self.question_key)  # of a wrong input the gate would say less
            decision = yield from gate.ask(given, internal(config))
            return Chosen(branches[decision["retrieve"]], given, decision)

        return chosen

    @model_validator(mode="after")
    def _check_known(self) -> Self:
        if self.known is None and self.llm is None:
            raise InputError.of("known", given=None, allowed="a Runnable, or give an llm")
        return self

    def _known(self, options: dict[str, object]) -> Backend:
        if self.known is not None:
            return Backend(runnable_of(self.known), name="known", options=options)
        assert self.llm is not None

        def prompt(given: object) -> str:
            return NO_RETRIEVAL.render(Context(question_of(given, self.question_key)))

        return Backend(RunnableLambda(prompt) | runnable_of(self.llm), text_of, "known", options)
