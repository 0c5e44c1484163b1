"""`fitrag calibrate gate`: fit a gate's threshold and keep it with the gate."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.evaluate.gate.rows import (
    check_drafter,
    gate_manifest,
    labelled_rows,
    outcomes_of,
)
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.evaluation.thresholds.gate import choose_threshold
from fitrag_integrations.values.thresholds import FittedThreshold

OWN = ("format", "kind")  # of every `model.json`, written by the folder itself


def calibrate_gate(
    rows: Annotated[list[Path], typer.Argument(help="Labelled rows: .jsonl or .jsonl.gz.")],
    model: Annotated[Path, typer.Option(help="The gate's folder, changed in place.")],
    target: Annotated[
        str, typer.Option(help="best accuracy, share, drop or conformal.")
    ] = "best accuracy",
    max_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="Of share: how many to retrieve for.")
    ] = None,
    max_drop: Annotated[
        float | None, typer.Option(help="Of drop and conformal: accuracy to lose, .02 is 2 points.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of drop: how sure to be of it.")] = 0.9,
    fitted_for: Annotated[
        str | None,
        typer.Option(help="The language model judged.", show_default="the one in model.json"),
    ] = None,
    resamples: Annotated[int, typer.Option(min=0, help="Of the interval, 0 for none.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    json: options.AsJson = False,
) -> None:
    """Fit the threshold above which a question counts as known, and store it with the gate.

    Reads known, or right_without and right_with (0 or 1), with the gate's p_known or else with
    question and draft, which the gate then scores. The targets are those of `choose_threshold`.
    """
    manifest = gate_manifest(model)
    given = labelled_rows(rows)
    gate = options.ModelOptions(str(model), device, dtype, batch_tokens)
    judged = _model(manifest) if fitted_for is None else fitted_for
    outcomes, loaded = outcomes_of(given, gate)
    check_drafter(given, loaded, judged)
    fitted = choose_threshold(
        outcomes,
        target.replace("-", " "),
        max_share=max_share,
        max_drop=max_drop,
        confidence=confidence,
        model=judged,
        data=", ".join(path.name for path in rows),
        resamples=resamples,
        seed=seed,
    )
    _store(model, manifest, fitted)
    typer.echo(_told(fitted, outcomes), err=True)
    if json:
        figures = {
            "accuracy": outcomes.accuracy(fitted.value),
            "share": outcomes.share(fitted.value),
        }
        typer.echo(json_.dumps({**fitted.to_dict(), **figures}))


def _model(manifest: dict[str, Any]) -> str:
    """Name the language model whose knowledge the gate judges."""
    before = manifest.get("threshold")
    named = before.get("model") if isinstance(before, dict) else None
    return str(named or manifest.get("model") or "")


def _store(folder: Path, manifest: dict[str, Any], fitted: FittedThreshold) -> None:
    from fitrag_integrations.models.runtime.folder import write_manifest

    fields = {name: value for name, value in manifest.items() if name not in OWN}
    fields["threshold"] = fitted.to_dict()
    write_manifest(folder, "model.json", kind=manifest["kind"], fields=fields)


def _told(fitted: FittedThreshold, outcomes: Outcomes) -> str:
    interval = "" if fitted.low is None else f" ({fitted.low:.3f} to {fitted.high:.3f})"
    accuracy, share = outcomes.accuracy(fitted.value), outcomes.share(fitted.value)
    figures = f"accuracy {accuracy:.3f}, share of retrieval {share:.3f} of {fitted.rows} rows"
    return f"threshold {fitted.value:.3f}{interval}: {figures}; {fitted.target}"
