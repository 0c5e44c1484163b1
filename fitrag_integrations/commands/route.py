"""`fitrag route`: is what was retrieved correct, ambiguous or incorrect (CRAG, section 4.3)?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fitrag_integrations._actions import ActionThresholds
from fitrag_integrations.commands import models, options
from fitrag_integrations.commands.batch import Verb
from fitrag_integrations.commands.progress import run_verb
from fitrag_integrations.commands.rows import passages_of, question_of
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.methods.grading import evaluate_port, grade, thresholds_of
from fitrag_integrations.ports import Evaluator
from fitrag_integrations.types import Excerpt

Grades = list[float]


def route(
    source: options.Input,
    target: options.Output,
    upper: Annotated[
        float | None,
        typer.Option(min=-1, max=1, help="Correct from here on.", show_default="the model's"),
    ] = None,
    lower: Annotated[
        float | None,
        typer.Option(min=-1, max=1, help="Incorrect below.", show_default="the model's"),
    ] = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Grade the passages of each row and decide what to do with them.

    Reads question and passages[{title, text}]; adds action (correct, ambiguous or incorrect) and
    grades[] in [-1, 1], in the order of the passages. A row without passages is incorrect.
    """
    chosen = options.ModelOptions(model, device, dtype, batch_tokens)
    how = options.RunOptions(overwrite, strict, quiet, json)

    def verb() -> Verb[Grades]:
        evaluator = models.load_evaluator(chosen)
        return route_verb(evaluator, chosen_thresholds(evaluator, upper, lower))

    run_verb("route", verb, source, target, how)


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

    def flow(row: Mapping[str, Any]) -> Flow[Grades]:
        question = question_of(row)
        passages = [] if row.get("passages") == [] else passages_of(row)
        graded = yield from grade(question, [Excerpt.whole(p) for p in passages], port)
        return [excerpt.score for excerpt in graded]

    def fields(traced: Traced[Grades]) -> dict[str, Any]:
        return {"action": thresholds.action(traced.value).value, "grades": traced.value}

    return Verb(flow, fields, ("action", "grades"), {"action": None, "grades": []})
