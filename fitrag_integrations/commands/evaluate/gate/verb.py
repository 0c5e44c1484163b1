"""`fitrag evaluate gate`: how well a gate knows what its model knows, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.engine.options import ModelOptions
from fitrag_integrations.commands.evaluate import options
from fitrag_integrations.commands.evaluate.gate.rows import gate_manifest, outcomes_of
from fitrag_integrations.commands.evaluate.options import Outcome, own_rows
from fitrag_integrations.commands.evaluate.provenance import Source
from fitrag_integrations.commands.evaluate.tables import show_figures
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.gate import gate_figures, gate_plots, gate_rows
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.methods.ik.decider import limit_of
from fitrag_integrations.ports import Gate
from fitrag_integrations.values.thresholds import FittedThreshold


@dataclass(frozen=True, slots=True)
class SweepOutcome(Outcome):
    """Say it of a gate, whose sweep is drawn."""

    plot: Annotated[Path | None, Option("Draw the sweep into this file: .png, .svg or .pdf.")] = (
        None
    )


@dataclass(frozen=True)
class EvaluateGate:
    """Tell a gate's accuracy, AUC and calibration, and the accuracy of answering by it.

    Reads known, or right_without and right_with (0 or 1), with the gate's p_known or else with
    question and draft, which the gate then scores. Intervals are at 95 %, of shares
    Wilson's, else the bootstrap's.
    """

    rows: Annotated[tuple[Path, ...], Argument("Labelled rows: .jsonl or .jsonl.gz.")]
    threshold: Annotated[
        float | None,
        Option("Known is what lies above.", min=0, max=1, default="the gate's, or 0.5"),
    ] = None
    outcome: SweepOutcome = SweepOutcome()
    model: ModelOptions = ModelOptions()

    def run(self) -> None:
        """Measure it."""
        self.outcome.check()
        given, folder = own_rows(self.rows), self.model.model
        outcomes, gate = outcomes_of(given, self.model)
        limit = _own(gate, folder) if self.threshold is None else self.threshold
        figures = gate_figures(outcomes, limit, self.outcome.draws)
        used: Row = {} if gate is None else {"gate": folder}
        source = Source(list(map(str, self.rows)), given)
        result = Result(
            "gate",
            options.rows_of(figures),
            gate_rows(given, outcomes, limit),
            self.outcome.settings("gate", source, used, {"threshold": limit}),
            gate_plots(outcomes, limit),
        )
        ends = ("value", "low", "high")
        told = {str(row["figure"]): {end: row[end] for end in ends} for row in result.figures}
        self.outcome.tell(
            result,
            {"rows": len(outcomes), "threshold": limit, "figures": told},
            lambda: show_figures(figures, f"{len(outcomes)} questions, threshold {limit:g}"),
            draw=options.drawing(result.plots[:1]),
        )


def _own(gate: Gate | None, folder: str | None) -> float:
    """Find the threshold the gate was fitted with; 0.5 where the rows came without a gate."""
    if gate is not None:
        return limit_of(gate, None)
    if folder is None or not Path(folder).is_dir():
        return 0.5
    fitted = gate_manifest(Path(folder)).get("threshold")
    return 0.5 if fitted is None else FittedThreshold.from_dict(fitted).value
