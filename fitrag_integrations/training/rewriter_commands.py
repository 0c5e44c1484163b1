"""`fitrag train rewriter`: from claims and queries to a rewriter's folder."""

from __future__ import annotations

from typing import Annotated

import typer

from fitrag_integrations.training.ik_commands import Base, Device, Out, Rows, Seed, Validation
from fitrag_integrations.training.rewriter import RewriterPlan, fit_rewriter
from fitrag_integrations.training.rows import read_jsonl


def train_rewriter(
    rows: Rows,
    out: Out,
    base: Base,
    template: Annotated[str, typer.Option(help="Prompt: paper or released.")] = "paper",
    draft_tokens: Annotated[int, typer.Option(min=1, help="Tokens of the answer read.")] = 512,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest rewriting.")] = 512,
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
    """Fit SlimPLM's query rewriter on rows of `fitrag label claims`; a stopped run goes on."""
    plan = RewriterPlan(
        base=base,
        template=template,
        draft_tokens=draft_tokens,
        max_new_tokens=max_new_tokens,
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
    typer.echo(str(fit_rewriter(given, out, plan)), err=True)
