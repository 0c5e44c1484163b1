"""`fitrag train ik`, `necessity` and `rewriter`: from labelled rows to a folder over a model."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from fitrag_integrations.commands.train.rows import in_processes, objects
from fitrag_integrations.training.causal.ik import IKPlan, fit_ik
from fitrag_integrations.training.causal.slimplm import (
    NecessityPlan,
    RewriterPlan,
    fit_necessity,
    fit_rewriter,
)
from fitrag_integrations.training.options import Out, Rows


@dataclass(frozen=True)
class TrainIK:
    """Fit an IK classifier on rows of `fitrag label ik`; a stopped run goes on.

    `accelerate launch --multi_gpu` and `torchrun` start it in several processes, for lora and full.
    """

    rows: Rows
    out: Out
    plan: IKPlan

    def run(self) -> None:
        """Fit it, and tell its figures."""
        with in_processes():
            figures = fit_ik(objects(self.rows), self.out, self.plan)
        if figures:
            typer.echo(str(figures), err=True)


@dataclass(frozen=True)
class TrainNecessity:
    """Fit a necessity judge on rows of `fitrag label necessity`; a stopped run goes on."""

    rows: Rows
    out: Out
    plan: NecessityPlan

    def run(self) -> None:
        """Fit it, and tell its figures."""
        typer.echo(str(fit_necessity(objects(self.rows), self.out, self.plan)), err=True)


@dataclass(frozen=True)
class TrainRewriter:
    """Fit SlimPLM's query rewriter on rows of `fitrag label claims`; a stopped run goes on."""

    rows: Rows
    out: Out
    plan: RewriterPlan

    def run(self) -> None:
        """Fit it, and tell its loss."""
        typer.echo(str(fit_rewriter(objects(self.rows), self.out, self.plan)), err=True)
