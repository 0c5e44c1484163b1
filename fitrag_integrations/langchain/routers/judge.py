"""Judge what was retrieved, as a step of a chain or a node of a graph (CRAG, 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.convert import to_passages
from fitrag_integrations.langchain.base.fields import Settings
from fitrag_integrations.langchain.base.options import JudgeOptions
from fitrag_integrations.langchain.base.runnable import FlowRunnable, question_of
from fitrag_integrations.langchain.base.tools import AskedOfDocuments, Judgment
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.evaluator import ActionJudge


class JudgeFields(FromFitted, JudgeOptions, Settings):
    """Fields of a judgment; read at each call."""

    question_key: str | None = Field(
        default=None,
        description=(
            'Key of the question in a dict; None looks for "question", "input", '
            '"query", "messages".'
        ),
    )

    def _judging(self, **others: Any) -> RetrievalJudge:
        own = {name: value for name, value in self if name in JudgeFields.model_fields}
        return RetrievalJudge(**{**own, **others})


class RetrievalJudge(JudgeFields, FlowRunnable[dict[str, Any], dict[str, Any]]):
    """Runnable that returns ``{"action", "grades", "thresholds"}`` for ``{"question",
    "documents"}`` (CRAG).

    ``action`` is "correct", "ambiguous" or "incorrect"; ``grades`` are in [-1, 1], one per
    document, -1 for one without text. A batch calls the evaluator once.

    Args:
        evaluator: Object with ``evaluate(pairs)``; None is the bundled one.
        thresholds: None are the evaluator's own; a text names a preset of the paper.
        question_key: Key of the question in a dict; None tries "question", "input", "query",
            "messages".

    Example:
        >>> graph.add_node("judge", RetrievalJudge())
        >>> graph.add_conditional_edges("judge", lambda state: state["action"])
    """

    _use: ClassVar[str] = "Judge whether documents answer a question."
    _takes: ClassVar[type[BaseModel]] = AskedOfDocuments
    _gives: ClassVar[type[BaseModel]] = Judgment

    def flows(
        self,
        inputs: Sequence[dict[str, Any]],
        configs: Sequence[RunnableConfig],
        **options: object,
    ) -> list[Flow[dict[str, Any]]]:
        """Return one flow per question; equal asks of one call join.

        Args:
            inputs: Dicts with a question and documents.
            configs: The config of each call, in the same order.
            **options: Not used.
        """
        judge = ActionJudge(**self.settings())
        return [self._flow(given, judge) for given in inputs]

    def _flow(self, given: object, judge: ActionJudge) -> Flow[dict[str, Any]]:
        if not isinstance(given, Mapping) or "documents" not in given:
            allowed = "a dict with 'question' and 'documents'"
            raise InputError.of("input", given=given, allowed=allowed)
        question = question_of(given, self.question_key)
        judged = yield from judge(question, to_passages(given["documents"]))
        return judged.to_dict()
