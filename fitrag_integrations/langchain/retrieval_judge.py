"""Judge what was retrieved, as a step of a chain or a node of a graph (CRAG, 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from pydantic import model_validator

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain._convert import to_passages
from fitrag_integrations.langchain._fields import AnyModel, Brief
from fitrag_integrations.langchain._questions import question_of
from fitrag_integrations.langchain._runnable import FlowRunnable
from fitrag_integrations.methods.judging import Judge


class JudgeFields(Brief):
    """Hold what is judged with; read at call time."""

    evaluator: AnyModel = None
    """An object with ``evaluate(pairs)``, a scorer, or a callable; None is the embedded one."""

    thresholds: AnyModel = None
    """``ActionThresholds``, or the name of a preset; None are the evaluator's own."""

    allow_other_model: bool = False
    """Accept thresholds that were fitted for another evaluator."""

    question_key: str | None = None
    """Where a dict has its question; None looks for "question", "input" and "query"."""

    def judge_arguments(self) -> dict[str, Any]:
        """Give what a ``RetrievalJudge`` is made of."""
        return {name: getattr(self, name) for name in JudgeFields.model_fields}

    @model_validator(mode="after")
    def _check_judge(self) -> Self:
        """Tell of a wrong argument here rather than at the first question."""
        self._judge()
        return self

    def _judge(self) -> Judge:
        return Judge(
            self.evaluator, thresholds=self.thresholds, allow_other_model=self.allow_other_model
        )


class RetrievalJudge(JudgeFields, FlowRunnable[dict[str, Any], dict[str, Any]]):
    """Give ``{"action", "grades", "thresholds"}`` for ``{"question", "documents"}``.

    ``action`` is "correct", "ambiguous" or "incorrect"; ``grades`` are in [-1, 1], one per
    document, -1 for one without text. A batch is one call of the evaluator. As a node of a graph,
    with edges on the action::

        graph.add_node("judge", RetrievalJudge())
        graph.add_conditional_edges("judge", lambda state: state["action"])
    """

    def flows(
        self,
        inputs: Sequence[dict[str, Any]],
        configs: Sequence[RunnableConfig],
        **options: Any,
    ) -> list[Flow[dict[str, Any]]]:
        """Give one flow per question; equal asks of one call join."""
        judge = self._judge()
        return [self._flow(given, judge) for given in inputs]

    def _flow(self, given: Any, judge: Judge) -> Flow[dict[str, Any]]:
        if not isinstance(given, Mapping) or "documents" not in given:
            allowed = "a dict with 'question' and 'documents'"
            raise InputError.of("input", given=given, allowed=allowed)
        question = question_of(given, self.question_key)
        judged = yield from judge(question, to_passages(given["documents"]))
        return judged.to_dict()
