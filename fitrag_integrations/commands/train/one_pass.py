"""`fitrag train onepass`."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from fitrag_integrations.commands.train.rows import rows_as
from fitrag_integrations.training.one_pass import OnePassPlan, fit_onepass, onepass_row
from fitrag_integrations.training.options import Out, Rows


@dataclass(frozen=True)
class TrainOnePass:
    """Fit the head that scores the windows of a passage in the pass that scores the passage.

    Reads question, passages[{title, text}] and, where known, answers[]. The scorer itself teaches
    it; what it read stays in the folder `run`, so that a second fit takes seconds.
    """

    rows: Rows
    out: Out
    plan: OnePassPlan

    def run(self) -> None:
        """Fit it, and tell its figures."""
        given = rows_as(self.rows, onepass_row)
        typer.echo(str(fit_onepass(given, self.out, self.plan)), err=True)
