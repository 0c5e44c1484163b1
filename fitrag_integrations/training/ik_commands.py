"""`fitrag train ik` and `fitrag train necessity`: from labelled rows to a gate's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.training.ik import IKPlan, fit_ik
from fitrag_integrations.training.necessity import THETA, NecessityPlan, fit_necessity
from fitrag_integrations.training.rows import read_jsonl

Rows = Annotated[list[Path], typer.Argument(help="Labelled rows: .jsonl or .jsonl.gz.")]
Out = Annotated[Path, typer.Option("--out", help="Folder to write.")]
Base = Annotated[str, typer.Option(help="Causal language model: a hub name or a folder.")]
Judged = Annotated[str, typer.Option(help="Model whose knowledge is judged; default: the rows'.")]
Tokens = Annotated[int, typer.Option(min=0, help="Tokens of the draft to read.")]
Validation = Annotated[float, typer.Option(help="Share of questions held out.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")]


def train_ik(
    rows: Rows,
    out: Out,
    base: Base,
    variant: Annotated[str, typer.Option(help="lora (the paper's) or head.")] = "lora",
    model: Judged = "",
    draft_tokens: Tokens = 32,
    lengths: Annotated[
        list[int] | None,
        typer.Option("--length", help="Draft length of the mixture; several times for several."),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Default: 1 for lora, 40 for head.")] = None,
    rate: Annotated[float | None, typer.Option(help="Default: 1e-4, 1e-3 for head.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows a step.")] = 16,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapter.")] = 16,
    alpha: Annotated[int, typer.Option(min=1, help="Scale of the adapter.")] = 32,
    dropout: float = 0.05,
    hidden: Annotated[int, typer.Option(min=0, help="Units of the head's layer, 0 none.")] = 0,
    layers: Annotated[
        list[int] | None,
        typer.Option("--layer", help="Layer whose states the head reads; several times."),
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Of the head.")] = 0.3,
    validation: Validation = 0.1,
    seed: Seed = 13,
    device: Device = None,
) -> None:
    """Fit an IK classifier on rows of `fitrag label ik`; a stopped run goes on."""
    plan = IKPlan(
        base=base,
        variant=variant,
        model=model,
        draft_tokens=draft_tokens,
        lengths=tuple(lengths or ()),
        epochs=epochs,
        rate=rate,
        batch=batch,
        rank=rank,
        alpha=alpha,
        dropout=dropout,
        hidden=hidden,
        layers=tuple(layers or ()),
        weight_decay=weight_decay,
        validation=validation,
        seed=seed,
        device=device,
    )
    given = (row for path in rows for row in read_jsonl(path))
    typer.echo(str(fit_ik(given, out, plan)), err=True)


def train_necessity(
    rows: Rows,
    out: Out,
    base: Base,
    template: Annotated[str, typer.Option(help="Prompt: paper or released.")] = "paper",
    model: Judged = "",
    theta: Annotated[float, typer.Option(help="Share of answers a draft must exceed.")] = THETA,
    draft_tokens: Tokens = 64,
    epochs: float = 1.0,
    rate: float = 1e-4,
    batch: Annotated[int, typer.Option(min=1, help="Rows a step.")] = 16,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapter.")] = 16,
    alpha: Annotated[int, typer.Option(min=1, help="Scale of the adapter.")] = 32,
    dropout: float = 0.05,
    validation: Validation = 0.1,
    seed: Seed = 13,
    device: Device = None,
) -> None:
    """Fit a necessity judge on rows of `fitrag label necessity`; a stopped run goes on."""
    plan = NecessityPlan(
        base=base,
        template=template,
        model=model,
        theta=theta,
        draft_tokens=draft_tokens,
        epochs=epochs,
        rate=rate,
        batch=batch,
        rank=rank,
        alpha=alpha,
        dropout=dropout,
        validation=validation,
        seed=seed,
        device=device,
    )
    given = (row for path in rows for row in read_jsonl(path))
    typer.echo(str(fit_necessity(given, out, plan)), err=True)
