"""`fitrag train bilabel`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.train.rows import in_processes, labelled
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.bilabel.fit import fit_bilabel
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.loop.loop import Running
from fitrag_integrations.training.options import Out, Rows


@dataclass(frozen=True)
class TrainBilabel:
    """Fit the bi-label scorer on rows of `fitrag label bilabel`.

    A stopped run goes on from its last checkpoint. `accelerate launch --multi_gpu` and `torchrun`
    start it in several processes.
    """

    rows: Rows
    out: Out
    plan: BilabelPlan = BilabelPlan()
    running: Running = Running()
    plot: Annotated[Path | None, Option("Folder to draw losses, w and calibration into.")] = None

    def run(self) -> None:
        """Fit it, and tell its figures."""
        file = self.plan.held_file
        given, held = labelled(self.rows), labelled([file]) if file else []
        if file and not held:
            allowed = "at least one labelled row"
            raise InputError.of("--validation", given=str(file), allowed=allowed)
        with in_processes():
            figures = fit_bilabel(
                given, self.out, self.plan, held=held, running=self.running, plots=self.plot
            )
        if figures:
            typer.echo(str(figures), err=True)
