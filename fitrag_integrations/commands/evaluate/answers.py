"""`fitrag evaluate answers`: how many answers are right, of one system or of two."""

from __future__ import annotations

import json as json_
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.tables import (
    bounds,
    change,
    check_plot,
    draw,
    number,
    probability,
    show,
    show_notes,
)
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.answers import (
    answer_figures,
    answer_plots,
    answer_rows,
    with_gold,
)
from fitrag_integrations.evaluation.figures.summaries import ALL, Draws, Figure, Question
from fitrag_integrations.evaluation.loaders import Loaded, read_questions
from fitrag_integrations.evaluation.result import Result, check_result_name

BARE = ("", ALL, None)  # sets and systems that need no column


def evaluate_answers(
    first: Annotated[str, typer.Argument(help="Rows: a file, or hf:NAME:SPLIT.")],
    second: Annotated[
        str | None, typer.Argument(help="The same questions, answered by another system.")
    ] = None,
    format: evaluating.Format = "auto",
    split: evaluating.Split = None,
    gold: Annotated[
        str | None,
        typer.Option(help="Rows to take the gold answers from, where a run file has none."),
    ] = None,
    common: evaluating.Common = False,
    price_in: evaluating.PriceIn = None,
    price_out: evaluating.PriceOut = None,
    price_search: evaluating.PriceSearch = None,
    out: evaluating.Out = None,
    plot: evaluating.Plot = None,
    resamples: evaluating.Resamples = 1000,
    seed: evaluating.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Judge answers by inclusion, exact match and token F1, for every set.

    Reads question, answers (the gold ones), and prediction or answer, in any of the published
    shapes. Intervals hold 95 % of bootstrap samples; the difference of two systems is over the
    same questions, with McNemar's p for accuracies.
    """
    check_plot(plot)
    check_result_name("--out", out)
    prices = prices_of(price_in, price_out, price_search)
    names = [first] if second is None else [first, second]
    loaded = [read_questions(name, format, split=split) for name in names]
    rows = [each.rows for each in loaded]
    if gold is not None:
        golden = read_questions(gold, split=split).rows
        rows = [with_gold(each, golden) for each in rows]
    systems = [""] if second is None else _systems(names)
    parts = [_rows(*each, prices) for each in zip(names, rows, systems, strict=True)]
    questions, notes = _same(parts, common)
    notes = [*(note for each in loaded for note in each.notes), *notes]
    figures = answer_figures(questions, Draws(resamples, seed))
    result = Result(
        "answers",
        tuple(figures),
        tuple(dict(question) for question in questions),
        settings_of(
            "answers",
            Source(names, [row for each in rows for row in each]),
            seed=seed,
            resamples=resamples,
            options={"format": _formats(loaded), "gold": gold, "common": common}
            | {"prices": prices and prices.to_dict()},
        ),
        answer_plots(figures, questions),
        tuple(notes),
    )
    finish(result, out, plot)
    if json:
        told = {"questions": len(questions), "figures": figures, "notes": notes}
        typer.echo(json_.dumps(told))
        return
    show_figures(figures, f"{len(questions)} answers")
    show_notes(notes)


def prices_of(given: float | None, written: float | None, asked: float | None) -> Prices | None:
    """Take the prices, None where none is given."""
    if given is written is asked is None:
        return None
    return Prices(given or 0.0, written or 0.0, asked or 0.0)


def finish(result: Result, out: Path | None, plot: Path | None) -> None:
    """Write the result and draw it, where that is asked for."""
    if out is not None:
        result.write(out)
    if plot is not None:
        draw(result.plots, plot)


def show_figures(figures: Sequence[Figure], title: str) -> None:
    """Print one line for each figure, with the columns that any of them needs."""
    named = [
        name for name in ("set", "system") for row in figures if row.get(name, ALL) not in BARE
    ]
    heads = dict.fromkeys(named, False)
    compared = any(row.get("difference") is not None for row in figures)
    columns = {"figure": False, **heads, "value": True, "95 %": True}
    if compared:
        columns |= {"to the first": True, "McNemar's p": True}
    rows = []
    for row in figures:
        cells = [str(row["figure"]), *(str(row.get(name) or "-") for name in heads)]
        cells += [number(row["value"]), bounds(row)]
        cells += [change(row), probability(row)] if compared else []
        rows.append([*cells, number(row.get("questions"))])
    show(title, {**columns, "questions": True}, rows)


def _systems(names: Sequence[str]) -> list[str]:
    """Name systems by their files, by the whole path where the names are the same."""
    stems = [Path(name).name.partition(".")[0] for name in names]
    return stems if len(set(stems)) == len(stems) else [f"{i}: {n}" for i, n in enumerate(names, 1)]


def _rows(
    name: str, rows: Sequence[dict[str, object]], system: str, prices: Prices | None
) -> list[Question]:
    try:
        return answer_rows(rows, system, prices)
    except InputError as error:
        raise InputError(f"{name}, {error}") from error


def _same(parts: Sequence[list[Question]], common: bool) -> tuple[list[Question], list[str]]:
    """Keep the questions that every system was asked, where that is asked for."""
    questions = [question for part in parts for question in part]
    if not common:
        return questions, []
    systems = {question["system"] for question in questions}
    asked = Counter(question["id"] for question in questions)
    kept = [question for question in questions if asked[question["id"]] == len(systems)]
    if not kept:
        raise InputError.of("--common", given=0, allowed="questions that all systems answered")
    lost = len(questions) - len(kept)
    told = f"{lost} answers to questions that not every system was asked are left out"
    return kept, [told] if lost else []


def _formats(loaded: Sequence[Loaded]) -> str:
    return ", ".join(each.format for each in loaded)
