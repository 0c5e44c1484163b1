"""`fitrag train` and `fitrag label`: the verbs over this folder's functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.folder import read_manifest, write_manifest
from fitrag_integrations.models.sources import MINILM
from fitrag_integrations.training.fitting import BilabelPlan, ReaderPlan, fit_bilabel, fit_reader
from fitrag_integrations.training.imbalance import Imbalance
from fitrag_integrations.training.labels import fit_abstention
from fitrag_integrations.training.mining import mine_negatives
from fitrag_integrations.training.rows import (
    Labelled,
    labelled_row,
    passage_row,
    read_jsonl,
    reading_json,
    reading_row,
    write_jsonl,
)
from fitrag_integrations.types import Passage

Rows = Annotated[list[Path], typer.Argument(help="Rows to learn from: .jsonl or .jsonl.gz.")]
Out = Annotated[Path, typer.Option("--out", help="Folder or file to write.")]
Pool = Annotated[Path, typer.Option(help="Passages (title, text) to find candidates in: .jsonl.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]


def label_negatives(rows: Rows, out: Out, pool: Pool, depth: int = 40, keep: int = 8) -> None:
    """Add to each reading row the best BM25 passages without an answer."""
    given = [reading_row(row) for path in rows for row in read_jsonl(path)]
    mined = mine_negatives(given, _pool(pool), depth=depth, keep=keep)
    write_jsonl(out, map(reading_json, mined))
    typer.echo(f"{len(mined)} rows, {sum(len(row.negatives) for row in mined)} negatives", err=True)


def train_reader(
    rows: Rows,
    out: Out,
    base: Annotated[str, typer.Option(help="Encoder to start from.")] = MINILM,
    steps: int = 2000,
    questions: Annotated[int, typer.Option(help="Questions a step.")] = 16,
    negatives: Annotated[int, typer.Option(help="Negative passages a question.")] = 2,
    words: Annotated[int, typer.Option(help="Longest passage; longer ones are cropped.")] = 130,
    rate: float = 2e-4,
    seed: Seed = 13,
    bfloat16: bool = True,
) -> None:
    """Fit the extractive reader; a stopped run goes on from its last checkpoint."""
    given = [reading_row(row) for path in rows for row in read_jsonl(path)]
    plan = ReaderPlan(base, steps, questions, negatives, words, rate, seed, bfloat16)
    fit_reader(given, out, plan)


def train_bilabel(
    rows: Rows,
    out: Out,
    base: Annotated[str, typer.Option(help="Encoder: a hub name, a folder, or a model.")] = MINILM,
    tune: Annotated[str, typer.Option(help="head, lora or full.")] = "lora",
    steps: int = 1000,
    questions: Annotated[int, typer.Option(help="Questions a step.")] = 4,
    rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 3e-4,
    hidden: Annotated[int, typer.Option(help="Units of the head's hidden layer, 0 none.")] = 0,
    evidence: Annotated[
        bool, typer.Option(help="Give the head lexical overlap and late interaction as well.")
    ] = True,
    validation: Annotated[float, typer.Option(help="Share of questions held out.")] = 0.15,
    imbalance: Annotated[
        str, typer.Option(help="Weighting of pairs: none, fixed, corrected or literal.")
    ] = "none",
    weight: Annotated[
        float | None, typer.Option(help="Weight w of matched pairs, or where it starts.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Step of w.")] = 1.0,
    clip: Annotated[float, typer.Option(help="w stays in [clip, 1 - clip].")] = 0.05,
    pairs: Annotated[int, typer.Option(help="Held-out pairs of each group to learn w on.")] = 64,
    direction: Annotated[
        str, typer.Option(help="Whose step w is learnt through: optimizer or sgd.")
    ] = "optimizer",
    seed: Seed = 13,
    bfloat16: bool = True,
) -> None:
    """Fit the bi-label scorer on rows of `fitrag label bilabel`."""
    given = _labelled(rows)
    if tune not in ("head", "lora", "full"):
        raise InputError.of("--tune", given=tune, allowed="head, lora or full")
    weighting = Imbalance(imbalance, weight, alpha, clip, pairs, direction)
    plan = BilabelPlan(
        base, tune, steps, questions, rate, hidden, evidence, validation, seed, bfloat16, weighting
    )
    typer.echo(str(fit_bilabel(given, out, plan)), err=True)


def calibrate_reader(
    rows: Rows,
    model: Annotated[Path, typer.Option(help="Reader's folder, changed in place.")],
    depth: Annotated[int, typer.Option(help="Passages the reader will read a question.")] = 5,
) -> None:
    """Fit the score under which the reader gives no answer, and store it with its weights."""
    given = _labelled(rows)
    manifest = read_manifest(model, "model.json", kind="reader")
    threshold, accuracy = fit_abstention(given, depth=depth)
    fields = {name: value for name, value in manifest.items() if name not in ("format", "kind")}
    fields["thresholds"] = {"abstain_below": threshold}
    write_manifest(model, "model.json", kind="reader", fields=fields)
    typer.echo(f"abstain below {threshold}: right on {accuracy:.3f} of the rows", err=True)


def _pool(path: Path) -> list[Passage]:
    return [passage_row(row) for row in read_jsonl(path)]


def _labelled(paths: list[Path]) -> list[Labelled]:
    """Read labelled rows; error rows have no labels and are left out."""
    rows = [row for path in paths for row in read_jsonl(path)]
    sound = [row for row in rows if row.get("error") is None]
    if len(sound) < len(rows):
        typer.echo(f"{len(rows) - len(sound)} error rows left out", err=True)
    return [labelled_row(row) for row in sound]
