"""Go on as what was retrieved deserves: CRAG's three actions as branches (CRAG, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from fitrag_integrations.core.checks import check_many
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.conversation import Condensing, standalone
from fitrag_integrations.langchain.base.fields import AnyRunnable, Kept, runnable_of
from fitrag_integrations.langchain.base.ports import Backend, internal
from fitrag_integrations.langchain.base.router import Chosen, Route, Router
from fitrag_integrations.langchain.base.runnable import Asked, AskedOfDocuments
from fitrag_integrations.langchain.routers.judge import JudgeFields
from fitrag_integrations.types import Action


class CorrectiveRouter(Condensing, JudgeFields, Router):
    """Runnable that grades documents and calls the branch of CRAG's action, with streaming.

    The input is ``{"question", "documents"}`` or, with a ``base``, a question. The branch receives
    it with ``question``, ``documents``, ``action`` and ``grades``; the documents are unchanged and
    the grades in their order. The judgment is a run of its own, ``RetrievalJudge``, and is in the
    metadata of the branch's runs as ``fitrag``. A batch calls evaluator and each branch once.

    Example:
        >>> router = CorrectiveRouter(correct=answer, incorrect=search_web, base=retriever)
        >>> router.invoke("Who designed the bridge?")
    """

    correct: Kept[AnyRunnable]
    """Runnable for questions that a document surely answers."""
    incorrect: Kept[AnyRunnable]
    """Runnable for questions that no document answers; in the paper, from the web alone."""
    ambiguous: Kept[AnyRunnable | None] = None
    """Runnable for unclear cases; in the paper, from the documents and the web together. None is
    `incorrect`, which can distinguish the two by the action."""
    base: Kept[AnyRunnable | None] = None
    """Retriever for inputs without documents: any Runnable from a question to documents."""

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the fields of the input: without a ``base``, documents too."""
        return AskedOfDocuments if self.base is None else Asked

    def route(self, **options: object) -> Route:
        """Return the flow's choice: ``correct``, ``ambiguous`` or ``incorrect``."""
        judge = Backend(self._judging(question_key=None), name="judge")  # its plain name
        base = None if self.base is None else Backend(runnable_of(self.base), name="retrieve")
        ambiguous = self.incorrect if self.ambiguous is None else self.ambiguous
        runnables = (self.correct, ambiguous, self.incorrect)
        branches = {
            action.value: Backend(runnable_of(runnable), name=action.value, options=options)
            for action, runnable in zip(Action, runnables, strict=True)
        }

        def chosen(given: object, config: RunnableConfig) -> Flow[Chosen]:
            key, condense = self.question_key, self.condense
            question, notes = yield from standalone(given, key, condense, config)
            documents = yield from _documents(given, question, base, internal(config))
            known = {"question": question, "documents": documents}
            judged = yield from judge.ask(known, internal(config))
            known |= {"action": judged["action"], "grades": judged["grades"]}
            others = given if isinstance(given, Mapping) else {}
            about = {**judged, "notes": list(notes)} if notes else judged
            return Chosen(branches[judged["action"]], {**others, **known}, about)

        return chosen


def _documents(
    given: object, question: str, base: Backend | None, config: RunnableConfig
) -> Flow[list[object]]:
    if isinstance(given, Mapping) and "documents" in given:
        return list(check_many("documents", given["documents"], Document))
    if base is None:
        allowed = "a dict with 'question' and 'documents', or give a base"
        raise InputError.of("input", given=given, allowed=allowed)
    return list((yield from base.ask(question, config)))
