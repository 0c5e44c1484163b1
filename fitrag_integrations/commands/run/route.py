"""`fitrag route`: is what was retrieved correct, ambiguous or incorrect (CRAG, section 4.3)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Files, ModelOptions, RunOptions, Searching
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.engine.searching import searched
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.methods.crag.actions import ActionThresholds
from fitrag_integrations.methods.crag.evaluator import evaluate_port, grade, thresholds_of
from fitrag_integrations.ports import Evaluator
from fitrag_integrations.types import Excerpt

Grades = list[float]


@dataclass(frozen=True)
class RoutePlan:
    """Grade the passages of each row and decide what to do with them.

    Reads question and, without --index, passages[{title, text}]; adds action (correct, ambiguous
    or incorrect) and grades[] in [-1, 1], in the order of the passages. A row without passages is
    incorrect.
    """

    files: Files
    upper: Annotated[
        float | None, Option("Correct from here on.", min=-1, max=1, default="the model's")
    ] = None
    lower: Annotated[
        float | None, Option("Incorrect below.", min=-1, max=1, default="the model's")
    ] = None
    search: Searching = Searching()
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Grade them."""
        run_plan("route", self)

    def verb(self) -> Verb[Any]:
        """Load the evaluator."""
        evaluator = models.load_evaluator(self.model)
        thresholds = chosen_thresholds(evaluator, self.upper, self.lower)
        return searched(route_verb(evaluator, thresholds), self.search)


def chosen_thresholds(
    evaluator: Evaluator, upper: float | None = None, lower: float | None = None
) -> ActionThresholds:
    """Take the evaluator's own thresholds, less what is given; both given need none of its own."""
    if upper is not None and lower is not None:
        return ActionThresholds(upper, lower)
    own = thresholds_of(evaluator)
    return ActionThresholds(
        own.upper if upper is None else upper, own.lower if lower is None else lower, own.strip
    )


def route_verb(evaluator: Evaluator, thresholds: ActionThresholds) -> Verb[Grades]:
    """Grade the passages of a row in one ask."""
    port = evaluate_port(evaluator)

    def flow(row: Row) -> Flow[Grades]:
        question = question_of(row)
        passages = [] if row.get("passages") == [] else passages_of(row)
        graded = yield from grade(question, [Excerpt.whole(p) for p in passages], port)
        return [excerpt.score for excerpt in graded]

    def fields(traced: Traced[Grades]) -> Row:
        return {"action": thresholds.action(traced.value).value, "grades": traced.value}

    return Verb(flow, fields, ("action", "grades"), {"action": None, "grades": []})
