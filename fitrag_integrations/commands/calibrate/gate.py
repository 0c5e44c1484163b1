"""`fitrag calibrate gate` and `reader`: when to retrieve, and when to give no answer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine.options import AsJson, Hardware, ModelOptions
from fitrag_integrations.commands.evaluate.decisions import gate_manifest, outcomes_of
from fitrag_integrations.commands.evaluate.options import LabeledRows, own_rows
from fitrag_integrations.commands.train.rows import labelled
from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.thresholds.fits import fit_abstention
from fitrag_integrations.evaluation.thresholds.risk import choose_threshold
from fitrag_integrations.models.runtime.folder import read_manifest, write_manifest
from fitrag_integrations.training.options import Rows, Seed


@dataclass(frozen=True)
class CalibrateGate:
    """Fit the threshold above which a question counts as known, and store it with the gate.

    Reads known, or right_without and right_with (0 or 1), and the gate's p_known. Rows without it
    need question and may have draft, which the gate then scores.

    Targets: best accuracy; share, which retrieves for at most --max-share of the questions; drop,
    which loses at most --max-drop of the accuracy of always retrieving, with --confidence; and
    conformal, the same on average.
    """

    rows: LabeledRows
    model: Annotated[Path, Option("The gate's folder, changed in place.")]
    target: Annotated[str, Option("Target: best accuracy, share, drop or conformal.")] = (
        "best accuracy"
    )
    max_share: Annotated[
        float | None, Option("Target share: maximum fraction retrieved.", min=0, max=1)
    ] = None
    max_drop: Annotated[
        float | None, Option("Targets drop and conformal: maximum accuracy loss (0.02 = 2 points).")
    ] = None
    confidence: Annotated[float, Option("Target drop: confidence of the bound.")] = 0.9
    fitted_for: Annotated[
        str | None, Option("Language model judged.", default="the one in model.json")
    ] = None
    resamples: Annotated[int, Option("Bootstrap resamples, 0 for none.", min=0)] = 200
    seed: Seed = 0
    hardware: Hardware = Hardware()
    json: AsJson = False

    def run(self) -> None:
        """Fit and store it, and report its figures."""
        manifest, given = gate_manifest(self.model), own_rows(self.rows)
        before = manifest.get("threshold")
        named = before.get("model") if isinstance(before, dict) else None
        own = str(named or manifest.get("model") or "")
        judged = own if self.fitted_for is None else self.fitted_for
        outcomes, loaded = outcomes_of(
            given, ModelOptions(model=str(self.model), **asdict(self.hardware))
        )
        name = trait(trait(loaded, "drafter", object), "name", str)
        drafts = trait(loaded, "draft_tokens", int) and any(r.get("draft") is None for r in given)
        wrong = drafts and name is not None and judged not in ("", name)
        allowed = f"drafts of {judged!r}, or --fitted-for {name}"
        refuse_if(wrong, "draft", f"rows that leave it to {name!r}", allowed)
        fitted = choose_threshold(
            outcomes,
            self.target.replace("-", " "),
            max_share=self.max_share,
            max_drop=self.max_drop,
            confidence=self.confidence,
            model=judged,
            data=", ".join(path.name for path in self.rows),
            resamples=self.resamples,
            seed=self.seed,
        )
        fields = {**manifest, "threshold": fitted.to_dict()}
        write_manifest(self.model, "model.json", kind=str(manifest["kind"]), fields=fields)
        if outcomes.known.min() == outcomes.known.max():
            kind = "known" if outcomes.known.max() else "unknown"
            one = f"all {len(outcomes)} questions are {kind}: a threshold fitted on them"
            typer.echo(f"fitrag calibrate gate: {one} is meaningless", err=True)
        figures = {
            "accuracy": outcomes.accuracy(fitted.value),
            "share": outcomes.share(fitted.value),
        }
        interval = "" if fitted.low is None else f" ({fitted.low:.3f} to {fitted.high:.3f})"
        text = f"accuracy {figures['accuracy']:.3f}, share of retrieval {figures['share']:.3f}"
        where = f"threshold {fitted.value:.3f}{interval}"
        typer.echo(f"{where}: {text} of {fitted.rows} rows; {fitted.target}", err=True)
        if self.json:
            typer.echo(json.dumps({**fitted.to_dict(), **figures}))


@dataclass(frozen=True)
class CalibrateReader:
    """Fit the score below which the reader returns no answer, and store it with the reader."""

    rows: Rows
    model: Annotated[Path, Option("Reader's folder, changed in place.")]
    depth: Annotated[int, Option("Passages per question that the reader will read.")] = 5

    def run(self) -> None:
        """Fit the score, and report how often it is right."""
        manifest = read_manifest(self.model, "model.json", kind="reader")
        threshold, accuracy = fit_abstention(labelled(self.rows), depth=self.depth)
        fields = {**manifest, "thresholds": {"abstain_below": threshold}}
        write_manifest(self.model, "model.json", kind="reader", fields=fields)
        typer.echo(f"abstain below {threshold}: right on {accuracy:.3f} of the rows", err=True)
