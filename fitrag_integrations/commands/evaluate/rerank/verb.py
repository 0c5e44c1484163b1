"""`fitrag evaluate rerank`: what a scorer's order of passages is worth beside the retriever's."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.rerank.rows import (
    are_scored,
    as_given,
    candidates,
    ranked_rows,
    read_first,
    short_answers,
)
from fitrag_integrations.commands.evaluate.rerank.table import by_order, show
from fitrag_integrations.commands.evaluate.tables import check_plot
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.ranking import Figure, Ranking
from fitrag_integrations.evaluation.figures.ranking_result import (
    ranking_figures,
    ranking_plots,
    ranking_rows,
)
from fitrag_integrations.evaluation.result import Result, check_result_name
from fitrag_integrations.ports import Scorer

EMBEDDED = "embedded"
KS = "1,3,5,10,20,50,100"
READ_KS = "1,3,5"


def evaluate_rerank(
    rows: Annotated[list[Path], typer.Argument(help="Labelled rows: .jsonl or .jsonl.gz.")],
    model: options.Model = None,
    reranker: Annotated[
        str | None, typer.Option(help="A published reranker in its place: name or folder.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="What it puts out: tokens, logit or probability.", show_default="by its kind"
        ),
    ] = None,
    k: Annotated[
        str, typer.Option("--k", help="Depths of R@k; deeper than any row is left out.")
    ] = KS,
    reader: Annotated[
        str | None,
        typer.Option(help="Reader that answers from the first passages: embedded, or a folder."),
    ] = None,
    read_k: Annotated[str, typer.Option(help="How many passages it is given.")] = READ_KS,
    plot: Annotated[
        Path | None, typer.Option(help="Draw R@k and accuracy into this file: .png, .svg or .pdf.")
    ] = None,
    format: evaluating.OursFormat = "fitrag",
    split: evaluating.Split = None,
    out: evaluating.Out = None,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap samples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Compare four orders of each question's passages: the retriever's and those by the scores.

    Reads question, answers and passages[{title, text}] in the retriever's order, with has_answer,
    llm_prefer and reader_score where they are known, and scores[{has_answer, llm_prefer}] of
    `fitrag score`, which are taken unless a model is named. An interval holds 95 % of bootstrap
    samples of the difference to the retriever's order over the same questions.
    """
    check_plot(plot)
    check_result_name("--out", out)
    ks, read_ks = depths("--k", k), depths("--read-k", read_k)
    given = ranked_rows(rows, format, split)
    if reader is not None and not all(row["answers"] for row in given):
        allowed = "nothing, where rows have no answers to compare with"
        raise InputError.of("--reader", given=reader, allowed=allowed)
    how = options.ModelOptions(model, device, dtype, batch_tokens)
    with progress_bar("score", len(given), shown=not quiet) as advance:
        scorer = _scorer(given, how, reranker, scale)
        ranked = candidates(given, scorer, advance)
    if reader is not None:
        named = None if reader == EMBEDDED else reader
        reading = models.load_reader(options.ModelOptions(named, device, dtype, batch_tokens))
        with progress_bar("read", len(given), shown=not quiet) as advance:
            ranked = read_first(given, ranked, reading, max(read_ks), advance)
    ranking = Ranking(ranked, resamples=resamples, seed=seed)
    ks, read_ks = ([k for k in some if k <= ranking.depth] for some in (ks, read_ks))
    figures = ranking.figures(ks, read_ks)
    gaps, notes = ranking.gap_closed(), _notes(given, ranking, read_ks)
    if plot is not None:
        _draw(ranking, figures, plot)
    if out is not None:
        used = {} if scorer is None else {"scorer": model if reranker is None else reranker}
        settings = settings_of(
            "rerank",
            Source(list(map(str, rows)), [as_given(row) for row in given]),
            seed=seed,
            resamples=resamples,
            models=used if reader is None else {**used, "reader": named},
            options={"k": ks, "read_k": read_ks, "scale": scale, "format": format},
        )
        Result(
            "rerank",
            tuple(ranking_figures(figures)),
            tuple(map(dict, ranking_rows(given, ranking, ks, read_ks))),
            settings,
            ranking_plots(ranking),
            tuple(notes),
        ).write(out)
    if json:
        told = {"rows": len(given), "figures": by_order(figures), "gap_closed": gaps}
        typer.echo(json_.dumps({**told, "notes": notes}))
        return
    show(figures, gaps, notes, len(given))


def depths(option: str, given: str) -> list[int]:
    """Read whole numbers with commas, sorted, each once."""
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise InputError.of(option, given=given, allowed="whole numbers above 0, with commas")
    return sorted(set(map(int, parts)))


def _scorer(
    rows: Sequence[Mapping[str, Any]],
    how: options.ModelOptions,
    reranker: str | None,
    scale: str | None,
) -> Scorer | None:
    """Load what scores; None where the rows bring their scores and no model is named."""
    if reranker is None:
        if scale is not None:
            raise InputError.of("--scale", given=scale, allowed="nothing without --reranker")
        if how.model is None and are_scored(rows):
            return None
        return models.load_scorer(how)
    if how.model is not None:
        raise InputError.of("--reranker", given=reranker, allowed="nothing beside --model")
    from fitrag_integrations.models import BiLabelScorer

    made = BiLabelScorer.from_reranker(
        reranker,
        scale=cast(Any, scale),
        device=how.device,
        dtype=how.dtype,
        batch_tokens=how.batch_tokens,
    )
    return cast(Scorer, made)


def _notes(
    rows: Sequence[Mapping[str, Any]], ranking: Ranking, read_ks: Sequence[int]
) -> list[str]:
    notes = []
    if len(ranking.orders) == 2:
        notes.append("the scorer gives no llm_prefer: has_answer is all there is to sort by")
    for k in read_ks:
        if 0 < (count := len(ranking.answered(k))) < len(rows):
            notes.append(f"accuracy@{k} is over the {count} questions whose answers are known")
    if count := short_answers(rows):
        notes.append(f"{count} rows have an answer of one letter or none: it stands in many texts")
    return notes


def _draw(ranking: Ranking, figures: Sequence[Figure], path: Path) -> None:
    from fitrag_integrations.evaluation.plots import plot_ranking

    plot_ranking(ranking.curves(), figures).savefig(path)
