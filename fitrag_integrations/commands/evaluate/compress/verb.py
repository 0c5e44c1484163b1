"""`fitrag evaluate compress`: the answers that compression keeps, for the tokens it saves."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.answers import finish, show_figures
from fitrag_integrations.commands.evaluate.cache import cache_of
from fitrag_integrations.commands.evaluate.compress.rows import (
    AFTER,
    BEFORE,
    compressed_rows,
    with_readings,
)
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.tables import check_plot, show_notes
from fitrag_integrations.evaluation.figures.compress import (
    KEPT,
    compress_figures,
    compress_plot,
    compress_rows,
    kept_curves,
)
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Figure,
    Question,
    by_set,
    column,
    difference,
    mean_row,
)
from fitrag_integrations.evaluation.loaders import read_questions
from fitrag_integrations.evaluation.result import Result, check_result_name

EMBEDDED = "embedded"


def evaluate_compress(
    rows: Annotated[str, typer.Argument(help="Rows of `fitrag compress`, with answers.")],
    reader: Annotated[
        str | None,
        typer.Option(help="Reader that answers before and after: embedded, or a folder."),
    ] = None,
    tokenizer: options.Tokenizer = "approximate",
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
    """Tell how many answers are kept for what share of the tokens, and draw the curve.

    Reads question, answers, passages[{title, text}] and excerpts[{passage, start, end, score}], as
    `fitrag compress` adds them. With a reader it also tells how many of its answers are right
    from the passages and from the excerpts.
    """
    check_plot(plot)
    check_result_name("--out", out)
    loaded = read_questions(rows, format, split=split)
    given = compressed_rows(loaded.rows)
    count = models.token_counter(tokenizer)
    questions, named = compress_rows(given, count), None
    if reader is not None:
        named = None if reader == EMBEDDED else reader
        how = options.ModelOptions(named, device, dtype, batch_tokens)
        with progress_bar("read", 2 * len(given), shown=not quiet) as advance:
            questions = with_readings(questions, given, how, cache_of(cache, out), advance)
    draws = Draws(resamples, seed)
    figures = [*compress_figures(questions, draws), *_readings(questions, draws)]
    curves = kept_curves(given, count)
    notes = [*loaded.notes, *_notes(questions)]
    result = Result(
        "compress",
        tuple(figures),
        tuple(dict(question) for question in questions),
        settings_of(
            "compress",
            Source([rows], loaded.rows),
            seed=seed,
            resamples=resamples,
            models={} if reader is None else {"reader": named},
            options={"format": loaded.format, "tokenizer": tokenizer},
        ),
        (compress_plot(curves),),
        tuple(notes),
    )
    finish(result, out, plot)
    if json:
        told = {"questions": len(questions), "figures": figures, "curves": curves, "notes": notes}
        typer.echo(json_.dumps(told))
        return
    show_figures(figures, f"{len(questions)} questions")
    show_notes(notes)


def _readings(questions: Sequence[Question], draws: Draws) -> list[Figure]:
    """Compare the answers read before and after, where a reader was asked."""
    rows = []
    for name, part in by_set(questions).items():
        before = mean_row(part, BEFORE, draws, set=name)
        after = mean_row(part, AFTER, draws, set=name)
        if before is not None and after is not None:
            told = difference(column(part, BEFORE), column(part, AFTER), draws)
            rows += [before, {**after, **told}]
    return rows


def _notes(questions: Sequence[Mapping[str, Any]]) -> list[str]:
    without = sum(KEPT not in question["values"] for question in questions)
    told = f"the passages of {without} questions hold no answer: nothing could be kept of them"
    return [told] if without else []
