"""`fitrag train reader`, what it learns from, and when it gives no answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine.outputs import settled
from fitrag_integrations.commands.train.rows import labelled, pool_of, rows_as
from fitrag_integrations.core.option import Option
from fitrag_integrations.evaluation.thresholds.fits import fit_abstention
from fitrag_integrations.models.runtime.folder import read_manifest, write_manifest
from fitrag_integrations.training.loop.loop import Running
from fitrag_integrations.training.negatives import mine_negatives
from fitrag_integrations.training.options import Out, Pool, Rows
from fitrag_integrations.training.reader import ReaderPlan, fit_reader
from fitrag_integrations.training.rows import reading_json, reading_row, write_jsonl


@dataclass(frozen=True)
class LabelNegatives:
    """Add to each reading row the best BM25 passages without an answer."""

    rows: Rows
    out: Out
    pool: Pool
    depth: Annotated[int, Option("Passages a question to look through.")] = 40
    keep: Annotated[int, Option("Negatives a question.")] = 8

    def run(self) -> None:
        """Find them, and write the rows."""
        given = rows_as(self.rows, reading_row)
        mined = mine_negatives(given, pool_of(self.pool), depth=self.depth, keep=self.keep)
        with settled(self.out, "label negatives", self, anew=True):
            write_jsonl(self.out, map(reading_json, mined))
        found = sum(len(row.negatives) for row in mined)
        typer.echo(f"{len(mined)} rows, {found} negatives", err=True)


@dataclass(frozen=True)
class TrainReader:
    """Fit the extractive reader; a stopped run goes on from its last checkpoint."""

    rows: Rows
    out: Out
    plan: ReaderPlan = ReaderPlan()
    running: Running = Running()

    def run(self) -> None:
        """Fit it."""
        given = rows_as(self.rows, reading_row)
        fit_reader(given, self.out, self.plan, self.running)


@dataclass(frozen=True)
class CalibrateReader:
    """Fit the score under which the reader gives no answer, and store it with its weights."""

    rows: Rows
    model: Annotated[Path, Option("Reader's folder, changed in place.")]
    depth: Annotated[int, Option("Passages the reader will read a question.")] = 5

    def run(self) -> None:
        """Fit the score, and tell how often it is right."""
        manifest = read_manifest(self.model, "model.json", kind="reader")
        threshold, accuracy = fit_abstention(labelled(self.rows), depth=self.depth)
        fields = {name: value for name, value in manifest.items() if name not in ("format", "kind")}
        fields["thresholds"] = {"abstain_below": threshold}
        write_manifest(self.model, "model.json", kind="reader", fields=fields)
        typer.echo(f"abstain below {threshold}: right on {accuracy:.3f} of the rows", err=True)
