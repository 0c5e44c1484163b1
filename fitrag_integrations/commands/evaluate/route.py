"""`fitrag evaluate route`: are the actions right, where they claim something?"""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.answers import finish, show_figures
from fitrag_integrations.commands.evaluate.cache import answered, cache_of
from fitrag_integrations.commands.evaluate.provenance import Source, model_entry, settings_of
from fitrag_integrations.commands.evaluate.tables import check_plot, show, show_notes
from fitrag_integrations.commands.run.route import chosen_thresholds, route_verb
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.route import route_figures, route_plots, route_rows
from fitrag_integrations.evaluation.figures.summaries import Draws, Figure
from fitrag_integrations.evaluation.loaders import read_questions
from fitrag_integrations.evaluation.result import Result, check_result_name
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.crag.actions import ActionThresholds

Given = Mapping[str, Any]


def evaluate_route(
    rows: Annotated[str, typer.Argument(help="Rows: a file, or hf:NAME:SPLIT.")],
    model: options.Model = None,
    upper: Annotated[
        float | None,
        typer.Option(min=-1, max=1, help="Correct from here on.", show_default="as in the rows"),
    ] = None,
    lower: Annotated[
        float | None,
        typer.Option(min=-1, max=1, help="Incorrect below.", show_default="as in the rows"),
    ] = None,
    format: evaluating.Format = "auto",
    split: evaluating.Split = None,
    cache: evaluating.Cache = None,
    out: evaluating.Out = None,
    plot: evaluating.Plot = None,
    resamples: evaluating.Resamples = 1000,
    seed: evaluating.Seed = 0,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Compare each question's action with whether a passage holds an answer.

    Reads question and passages[{title, text}], with has_answer in each or answers to find it by,
    and action and grades of `fitrag route`. Passages are graded here where rows have no action or
    a model is named; --upper and --lower decide anew from the grades.
    """
    check_plot(plot)
    check_result_name("--out", out)
    loaded = read_questions(rows, format, split=split)
    given: list[Given] = list(loaded.rows)
    how = options.ModelOptions(model, device, dtype, batch_tokens)
    graded = model is not None or any(row.get("action") is None for row in given)
    if graded:
        given = _graded(given, how, (upper, lower), cache_of(cache, out), shown=not quiet)
    elif upper is not None or lower is not None:
        given = [_decided(row, upper, lower) for row in given]
    questions = route_rows(given)
    figures = route_figures(questions, Draws(resamples, seed))
    result = Result(
        "route",
        tuple(figures),
        tuple(dict(question) for question in questions),
        settings_of(
            "route",
            Source([rows], loaded.rows),
            seed=seed,
            resamples=resamples,
            models={"evaluator": model} if graded else {},
            options={"format": loaded.format, "upper": upper, "lower": lower},
        ),
        route_plots(questions),
        loaded.notes,
    )
    finish(result, out, plot)
    if json:
        told = {"questions": len(questions), "figures": figures, "notes": list(loaded.notes)}
        typer.echo(json_.dumps(told))
        return
    show_figures([row for row in figures if "truth" not in row], f"{len(questions)} questions")
    _show_confusion([row for row in figures if "truth" in row])
    show_notes(loaded.notes)


def _graded(
    rows: Sequence[Given],
    how: options.ModelOptions,
    limits: tuple[float | None, float | None],
    cache: Path | None,
    *,
    shown: bool,
) -> list[Given]:
    """Grade the passages of every row, and decide."""
    evaluator = models.load_evaluator(how)
    thresholds = chosen_thresholds(evaluator, *limits)
    verb = route_verb(evaluator, thresholds)

    def answer(some: list[Given]) -> list[list[float]]:
        return [traced.value for traced in run_many([verb.flow(row) for row in some])]

    setup = {"verb": "route", "model": model_entry("evaluator", how.model), "dtype": how.dtype}
    asked = [{"question": row.get("question"), "passages": row.get("passages")} for row in rows]
    with progress_bar("route", len(rows), shown=shown) as advance:
        found = answered(asked, answer, setup=setup, path=cache, advance=advance)
    return [
        {**row, "grades": grades, "action": thresholds.action(grades).value}
        for row, grades in zip(rows, found, strict=True)
    ]


def _decided(row: Given, upper: float | None, lower: float | None) -> Given:
    if upper is None or lower is None:
        given = "--upper" if lower is None else "--lower"
        raise InputError.of("--upper, --lower", given=given, allowed="both, or a --model")
    grades = row.get("grades")
    if not isinstance(grades, list):
        raise InputError.of("grades", given=grades, allowed="a list, or a --model to grade with")
    return {**row, "action": ActionThresholds(upper, lower).action(grades).value}


def _show_confusion(rows: Sequence[Figure]) -> None:
    truths = list(dict.fromkeys(row["truth"] for row in rows))
    counts = {(row["action"], row["truth"]): str(row["value"]) for row in rows}
    table = [
        [action, *(counts[action, truth] for truth in truths)]
        for action in dict.fromkeys(row["action"] for row in rows)
    ]
    show("questions by action", {"action": False, **dict.fromkeys(truths, True)}, table)
