"""`fitrag train eligibility`: from labelled combinations to a detector's folder."""

from __future__ import annotations

import json as json_
from dataclasses import dataclass

import typer

from fitrag_integrations.commands.engine.options import AsJson
from fitrag_integrations.commands.train.rows import objects
from fitrag_integrations.training.eligibility.fit import EligibilityPlan, fit_eligibility
from fitrag_integrations.training.options import Out, Rows


@dataclass(frozen=True)
class TrainEligibility:
    """Fit an eligible augmentation detector, calibrate it and choose when it stops.

    The rows are those of `fitrag label eligibility`.
    """

    rows: Rows
    out: Out
    plan: EligibilityPlan = EligibilityPlan()
    json: AsJson = False

    def run(self) -> None:
        """Fit it, and tell its figures."""
        figures = fit_eligibility(objects(self.rows), self.out, self.plan)
        text = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        typer.echo(json_.dumps(figures) if self.json else text, err=not self.json)
