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
from fitrag_integrations.methods.crag.evaluator import ActionJudge, Judged, thresholds_of
from fitrag_integrations.methods.crag.verdict import ListJudge, judge_of
from fitrag_integrations.ports import Evaluator


@dataclass(frozen=True)
class RoutePlan:
    """Grade the passages of each row and decide what to do with them.

    Reads question and, without --index, passages[{title, text}]; adds action (correct, ambiguous
    or incorrect) and grades[] in [-1, 1], in the order of the passages. A row without passages is
    incorrect. With --verdict the whole list decides, and its chance to hold the answer is added.
    """

    files: Files
    upper: Annotated[
        float | None, Option("Lowest grade of Correct.", min=-1, max=1, default="the model's")
    ] = None
    lower: Annotated[
        float | None, Option("Grades below are Incorrect.", min=-1, max=1, default="the model's")
    ] = None
    verdict: Annotated[
        str | None,
        Option(
            "Judge the whole list: folder of `fitrag calibrate verdict`, or embedded.",
            default="the best grade decides",
        ),
    ] = None
    search: Searching = Searching()
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Grade them."""
        run_plan("route", self)

    def verb(self) -> Verb[Any]:
        """Load the evaluator."""
        judge = None if self.verdict is None else judge_of(self.verdict)
        evaluator = models.load_evaluator(self.model)
        thresholds = chosen_thresholds(evaluator, self.upper, self.lower)
        return searched(route_verb(evaluator, thresholds, judge), self.search)


def chosen_thresholds(
    evaluator: Evaluator, upper: float | None = None, lower: float | None = None
) -> ActionThresholds:
    """Return the evaluator's own thresholds, overridden by the options; if both are given, none is
    needed.
    """
    if upper is not None and lower is not None:
        return ActionThresholds(upper, lower)
    own = thresholds_of(evaluator)
    return ActionThresholds(
        own.upper if upper is None else upper, own.lower if lower is None else lower, own.strip
    )


def route_verb(
    evaluator: Evaluator, thresholds: ActionThresholds, verdict: ListJudge | None = None
) -> Verb[Judged]:
    """Grade the passages of a row in one ask; a `verdict` asks its own models as well."""
    judge = ActionJudge(evaluator, thresholds=thresholds, verdict=verdict)
    chance = () if verdict is None else ("chance",)

    def flow(row: Row) -> Flow[Judged]:
        question = question_of(row)
        passages = [] if row.get("passages") == [] else passages_of(row)
        return (yield from judge(question, passages))

    def fields(traced: Traced[Judged]) -> Row:
        judged = traced.value
        numbers = {name: judged.told[name] for name in chance}
        return {"action": judged.action.value, "grades": list(judged.grades), **numbers}

    empty: Row = {"action": None, "grades": [], **dict.fromkeys(chance)}
    return Verb(flow, fields, ("action", "grades", *chance), empty)
