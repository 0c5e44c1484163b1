"""Judge what was retrieved, as a step of a chain or a node of a graph (CRAG, 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.fields import Brief, Kept
from fitrag_integrations.langchain.base.runnable import (
    AskedOfDocuments,
    FlowRunnable,
    documents_of,
    question_of,
)
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.evaluator import ActionJudge
from fitrag_integrations.values.thresholds import ActionThresholds


class Judgment(BaseModel):
    """Output of a judge."""

    action: str = Field(description="'correct', 'ambiguous' or 'incorrect'.")
    grades: list[float] = Field(description="A grade in [-1, 1] for each document, in order.")
    thresholds: dict[str, Any] = Field(description="The thresholds between the actions.")


class JudgeFields(FromFitted, Brief):
    """Fields of a judgment; read at each call."""

    made: ClassVar[type[ActionJudge]] = ActionJudge

    evaluator: Kept[Any] = None
    """Object with `evaluate(pairs)`, a bi-label scorer, or a callable; None is the bundled one."""
    thresholds: Kept[ActionThresholds | str | None] = None
    """None are the evaluator's own; a text names a preset of the paper."""
    allow_other_model: bool = False
    """Accept thresholds that were fitted for another evaluator."""
    question_key: str | None = None
    """Key of the question in a dict; None tries "question", "input", "query", "messages"."""

    def _judging(self, **others: Any) -> RetrievalJudge:
        own = {name: value for name, value in self if name in JudgeFields.model_fields}
        return RetrievalJudge(**{**own, **others})


class RetrievalJudge(JudgeFields, FlowRunnable[dict[str, Any], dict[str, Any]]):
    """Runnable that returns ``{"action", "grades", "thresholds"}`` for ``{"question",
    "documents"}`` (CRAG).

    ``action`` is "correct", "ambiguous" or "incorrect"; ``grades`` are in [-1, 1], one per
    document, -1 for one without text. A batch calls the evaluator once.

    Example:
        >>> graph.add_node("judge", RetrievalJudge())
        >>> graph.add_conditional_edges("judge", lambda state: state["action"])
    """

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

        def judged(given: object) -> Flow[dict[str, Any]]:
            passages = documents_of(given)
            question = question_of(given, self.question_key)
            return (yield from judge(question, passages)).to_dict()

        return list(map(judged, inputs))
