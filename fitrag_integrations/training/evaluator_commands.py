"""`fitrag label evaluator` and `fitrag train evaluator`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models.sources import MINILM
from fitrag_integrations.training.commands import Out, Rows, Seed
from fitrag_integrations.training.evaluator import Judged, judged_json, judged_row
from fitrag_integrations.training.evaluator_fitting import EvaluatorPlan, fit_evaluator
from fitrag_integrations.training.mining import candidates
from fitrag_integrations.training.rows import passage_row, read_jsonl, write_jsonl
from fitrag_integrations.types import Passage

SIGNALS = ("answer", "title", "passage")


def label_evaluator(
    rows: Rows,
    out: Out,
    signal: Annotated[
        str, typer.Option(help="What makes a passage right: answer, title or passage.")
    ] = "answer",
    pool: Annotated[
        Path | None,
        typer.Option(help="Passages to retrieve from by BM25.", show_default="each row's own"),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages a question.")] = 10,
) -> None:
    """Judge what was retrieved for each question: does it hold the answer?

    Reads question, passages[{title, text}] (not with --pool) and what the signal needs: answers[],
    title (the gold title, one or several), or passage{title, text} (the gold passage). Writes the
    passages with has_answer; those that are not right are the negatives, of the same retrieval.
    """
    if signal not in SIGNALS:
        raise InputError.of("--signal", given=signal, allowed=", ".join(SIGNALS))
    given = [row for path in rows for row in read_jsonl(path)]
    judged = [*_judged(given, signal, _retrieved(given, pool, depth))]
    write_jsonl(out, map(judged_json, judged))
    right = sum(any(row.holds) for row in judged)
    labels = [label for row in judged for label in row.holds]
    told = f"{right} with a right passage; {sum(labels)} of {len(labels)} pairs are right"
    typer.echo(f"{len(judged)} questions, {told}", err=True)


def _retrieved(rows: list[dict[str, Any]], pool: Path | None, depth: int) -> list[list[Passage]]:
    if pool is None:
        return [[passage_row(passage) for passage in row["passages"][:depth]] for row in rows]
    passages = [passage_row(row) for row in read_jsonl(pool)]
    return candidates([row["question"] for row in rows], passages, depth=depth)


def _judged(
    rows: list[dict[str, Any]], signal: str, retrieved: list[list[Passage]]
) -> Iterable[Judged]:
    for row, passages in zip(rows, retrieved, strict=True):
        if passages:
            holds = tuple(int(_is_right(passage, row, signal)) for passage in passages)
            answers = tuple(row.get("answers") or ())
            yield Judged(row["question"], answers, tuple(passages), holds)


def _is_right(passage: Passage, row: dict[str, Any], signal: str) -> bool:
    if signal == "answer":
        return contains_answer(f"{passage.title} {passage.text}", row["answers"])
    if signal == "title":
        titles = [row["title"]] if isinstance(row["title"], str) else row["title"]
        return _alike(passage.title) in map(_alike, titles)
    return _alike(passage.text) == _alike(row["passage"]["text"])


def _alike(text: str) -> str:
    return " ".join(text.split()).casefold()


def train_evaluator(
    rows: Rows,
    out: Out,
    base: Annotated[
        str, typer.Option(help="Encoder: a hub name, a folder, or a reader's folder.")
    ] = MINILM,
    name: Annotated[
        str, typer.Option(help="Its name, which thresholds carry.", show_default="the folder's")
    ] = "",
    rank: Annotated[int, typer.Option(min=0, help="Of the LoRA adapter, 0 for none.")] = 16,
    steps: int = 1000,
    questions: Annotated[int, typer.Option(min=1, help="Questions a step.")] = 16,
    rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 7e-4,
    seed: Seed = 13,
    bfloat16: bool = True,
) -> None:
    """Fit a retrieval evaluator on rows of `fitrag label evaluator`.

    A stopped run goes on from its last checkpoint.
    """
    given = [judged_row(row) for path in rows for row in read_jsonl(path)]
    plan = EvaluatorPlan(base, name or out.name, rank, steps, questions, rate, seed, bfloat16)
    fit_evaluator(given, out, plan)
