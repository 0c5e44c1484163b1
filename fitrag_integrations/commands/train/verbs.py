"""`fitrag train` for each model: labeled rows to a model folder."""

from __future__ import annotations

import json as json_
from dataclasses import dataclass, replace

import typer

from fitrag_integrations.commands.engine.options import AsJson
from fitrag_integrations.commands.engine.rows import labelled, objects, rows_as
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel
from fitrag_integrations.training.causal.ik import IKPlan, fit_ik
from fitrag_integrations.training.causal.slimplm import (
    NecessityPlan,
    RewriterPlan,
    fit_necessity,
    fit_rewriter,
)
from fitrag_integrations.training.eligibility import EligibilityPlan, fit_eligibility
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, fit_evaluator
from fitrag_integrations.training.options import Out, Rows
from fitrag_integrations.training.reader import ReaderPlan, fit_reader
from fitrag_integrations.training.rows import (
    judged_row,
    reading_row,
)
from fitrag_integrations.training.trainer import Running


@dataclass(frozen=True)
class Training:
    """Base of the verbs that fit a model to rows and write its folder."""

    rows: Rows
    out: Out

    def fit(self) -> object:
        """Fit the model; returns its figures, false in a process that has none to report."""
        raise NotImplementedError

    def run(self) -> None:
        """Fit the model, and report its figures."""
        figures = self.fit()
        if figures:
            typer.echo(str(figures), err=True)


@dataclass(frozen=True)
class TrainBilabel(Training):
    """Fit the bi-label scorer on rows of `fitrag label bilabel`.

    A stopped run goes on from its last checkpoint. `accelerate launch --multi_gpu` and `torchrun`
    start it in several processes.
    """

    plan: BilabelPlan = BilabelPlan()
    running: Running = Running()

    def fit(self) -> object:
        """Fit the model on the rows, with those of --validation held out."""
        file = self.plan.held_file
        given, held = labelled(self.rows), labelled([file]) if file else []
        refuse_if(bool(file) and not held, "--validation", str(file), "at least one labeled row")
        return fit_bilabel(given, self.out, self.plan, held=held, running=self.running)


@dataclass(frozen=True)
class TrainEvaluator(Training):
    """Fit a retrieval evaluator on rows of `fitrag label evaluator`.

    A stopped run goes on from its last checkpoint. The paper's (CRAG, appendix B.3): --base
    google-t5/t5-large --loss regression --tune full --learning-rate 1e-4 --batch 12 --epochs 8.
    `accelerate launch --multi_gpu` and `torchrun` start it in several processes.
    """

    plan: EvaluatorPlan = EvaluatorPlan()
    running: Running = Running()

    def fit(self) -> object:
        """Fit the model; its figures are those of the rows held out."""
        plan = replace(self.plan, name=self.plan.name or self.out.name)
        figures = fit_evaluator(rows_as(self.rows, judged_row), self.out, plan, self.running)
        if not plan.validation:
            return figures or "no question held out (--validation): no figures"
        return figures


@dataclass(frozen=True)
class TrainEligibility(Training):
    """Fit an eligible augmentation detector, calibrate it and choose when it stops.

    The rows are those of `fitrag label eligibility`.
    """

    plan: EligibilityPlan = EligibilityPlan()
    json: AsJson = False

    def run(self) -> None:
        """Fit the model, and report its figures."""
        figures = fit_eligibility(objects(self.rows), self.out, self.plan)
        text = ", ".join(f"{name} {value:g}" for name, value in figures.items())
        typer.echo(json_.dumps(figures) if self.json else text, err=not self.json)


@dataclass(frozen=True)
class TrainReader(Training):
    """Fit the extractive reader; a stopped run goes on from its last checkpoint."""

    plan: ReaderPlan = ReaderPlan()
    running: Running = Running()

    def fit(self) -> None:
        """Fit the model; there are no figures."""
        fit_reader(rows_as(self.rows, reading_row), self.out, self.plan, self.running)


@dataclass(frozen=True)
class TrainIK(Training):
    """Fit an IK classifier on rows of `fitrag label ik`; a stopped run goes on.

    `accelerate launch --multi_gpu` and `torchrun` start it in several processes, for lora and full.
    """

    plan: IKPlan

    def fit(self) -> object:
        """Fit the model."""
        return fit_ik(objects(self.rows), self.out, self.plan)


@dataclass(frozen=True)
class TrainNecessity(Training):
    """Fit a necessity judge on rows of `fitrag label necessity`; a stopped run goes on."""

    plan: NecessityPlan

    def fit(self) -> object:
        """Fit the model."""
        return fit_necessity(objects(self.rows), self.out, self.plan)


@dataclass(frozen=True)
class TrainRewriter(Training):
    """Fit SlimPLM's query rewriter on rows of `fitrag label claims`; a stopped run goes on."""

    plan: RewriterPlan

    def fit(self) -> object:
        """Fit the model."""
        return fit_rewriter(objects(self.rows), self.out, self.plan)
