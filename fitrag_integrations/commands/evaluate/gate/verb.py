"""`fitrag evaluate gate`: how well a gate knows what its model knows, and what that is worth."""

from __future__ import annotations

import json as json_
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.gate.rows import (
    gate_manifest,
    labelled_rows,
    outcomes_of,
)
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.tables import check_plot
from fitrag_integrations.evaluation import sweep as sweeps
from fitrag_integrations.evaluation.figures.gate import gate_plots, gate_rows
from fitrag_integrations.evaluation.figures.intervals import bootstrap
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes
from fitrag_integrations.evaluation.result import Result, check_result_name
from fitrag_integrations.values.thresholds import FittedThreshold

Figure = Callable[[Outcomes], float | None]


def evaluate_gate(
    rows: Annotated[list[Path], typer.Argument(help="Labelled rows: .jsonl or .jsonl.gz.")],
    model: options.Model = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Known is what lies above.", show_default="the gate's, or 0.5"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the sweep into this file: .png, .svg or .pdf.")
    ] = None,
    out: evaluating.Out = None,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap samples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    json: options.AsJson = False,
) -> None:
    """Tell a gate's accuracy, AUC and calibration, and the accuracy of answering by it.

    Reads known, or right_without and right_with (0 or 1), with the gate's p_known or else with
    question and draft, which the gate then scores. Intervals hold 95 % of bootstrap samples.
    """
    check_plot(plot)
    check_result_name("--out", out)
    given = labelled_rows(rows)
    chosen = options.ModelOptions(model, device, dtype, batch_tokens)
    outcomes, gate = outcomes_of(given, chosen)
    limit = _own(gate, model) if threshold is None else threshold
    report = gate_report(outcomes, limit, resamples=resamples, seed=seed)
    if plot is not None:
        _draw(outcomes, plot)
    if out is not None:
        settings = settings_of(
            "gate",
            Source(list(map(str, rows)), given),
            seed=seed,
            resamples=resamples,
            models={} if gate is None else {"gate": model},
            options={"threshold": limit},
        )
        _result(report, given, outcomes, settings).write(out)
    if json:
        typer.echo(json_.dumps({"rows": len(outcomes), "threshold": limit, "figures": report}))
        return
    _show(report, f"{len(outcomes)} questions, threshold {limit:g}")


def _own(gate: Any, folder: str | None) -> float:
    """Find the threshold the gate was fitted with; 0.5 where the rows came without a gate."""
    if gate is None and folder is not None and Path(folder).is_dir():
        fitted = gate_manifest(Path(folder)).get("threshold")
        return 0.5 if fitted is None else FittedThreshold.from_dict(fitted).value
    found = getattr(gate, "threshold", None)
    return 0.5 if found is None else float(found)


def gate_report(
    outcomes: Outcomes, threshold: float, *, resamples: int = 1000, seed: int = 0
) -> dict[str, dict[str, float | None]]:
    """Give each figure as value, low and high, None where the rows do not define it."""
    report = {}
    for name, figure in _figures(outcomes, threshold).items():
        bounds = bootstrap(
            lambda places, figure=figure: figure(outcomes.take(places)),  # type: ignore[misc]
            len(outcomes),
            resamples=resamples,
            seed=seed,
        )
        low, high = bounds or (None, None)
        report[name] = {"value": figure(outcomes), "low": low, "high": high}
    return report


def _result(
    report: dict[str, dict[str, Any]],
    rows: list[dict[str, Any]],
    outcomes: Outcomes,
    settings: dict[str, Any],
) -> Result:
    told = [{"figure": name, **row, "questions": len(rows)} for name, row in report.items()]
    questions = gate_rows(rows, outcomes, settings["options"]["threshold"])
    return Result("gate", tuple(told), tuple(map(dict, questions)), settings, gate_plots(outcomes))


def _figures(outcomes: Outcomes, threshold: float) -> dict[str, Figure]:
    about_known: dict[str, Figure] = {
        "accuracy of the gate": lambda o: sweeps.gate_accuracy(o, threshold),
        "AUC": sweeps.gate_auc,
        "calibration error": sweeps.gate_calibration_error,
        "share of retrieval": lambda o: o.share(threshold),
    }
    if outcomes.right_with is None:
        return about_known
    return about_known | {
        "accuracy of the answers": lambda o: o.accuracy(threshold),
        "never retrieving": lambda o: o.accuracy(-1.0),
        "always retrieving": lambda o: o.accuracy(1.0),
        "oracle": lambda o: sweeps.Sweep.of(o).oracle,
        "sweep area": sweeps.area,
        "best point: accuracy": lambda o: float(Curve.of(o).accuracy.max()),
        "best point: share": _best_share,
        "best accuracy retrieving for half": _at_half,
    }


def _best_share(outcomes: Outcomes) -> float:
    curve = Curve.of(outcomes)
    return float(curve.share[curve.best])


def _at_half(outcomes: Outcomes) -> float | None:
    curve = Curve.of(outcomes)
    allowed = curve.accuracy[curve.share <= 0.5]
    return float(allowed.max()) if len(allowed) else None


def _draw(outcomes: Outcomes, path: Path) -> None:
    from fitrag_integrations.evaluation.plots import plot_sweep

    figure: Any = plot_sweep(sweeps.Sweep.of(outcomes)).figure
    figure.savefig(path)


def _show(report: dict[str, dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, box=None, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column("figure")
    for name in ("value", "low", "high"):
        table.add_column(name, justify="right")
    for name, row in report.items():
        table.add_row(name, *("-" if row[k] is None else f"{row[k]:.3f}" for k in row))
    Console().print(table)
