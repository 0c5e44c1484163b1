"""`fitrag evaluate gate` and `fitrag evaluate route`: the decisions of a gate and an evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK
from fitrag_integrations.commands.engine.options import ModelOptions, Quiet, Server, Threshold
from fitrag_integrations.commands.engine.progress import chunked
from fitrag_integrations.commands.engine.rows import objects
from fitrag_integrations.commands.evaluate.options import (
    Drawing,
    Format,
    InputRows,
    LabeledRows,
    Outcome,
    settings_of,
)
from fitrag_integrations.commands.run.judge import chosen_thresholds, gate_verb, route_verb
from fitrag_integrations.core.checks import check_is
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation import measures
from fitrag_integrations.evaluation.outcomes import Outcomes, sweep_plot
from fitrag_integrations.evaluation.rows import read_rows
from fitrag_integrations.evaluation.table import Table
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.methods.ik.decider import limit_of
from fitrag_integrations.methods.ik.gates import own_gate
from fitrag_integrations.ports import Gate
from fitrag_integrations.values.thresholds import FittedThreshold


@dataclass(frozen=True)
class EvaluateGate:
    """Measure a gate's accuracy, AUC and calibration, and the accuracy of answering by it.

    Reads known, or right_without and right_with (0 or 1), and the gate's p_known. If a row has no
    p_known, the gate scores all: they need question, and may have draft. --plot draws the sweep
    over all thresholds. Intervals are at 95 %: Wilson's for fractions, else the bootstrap's.
    """

    rows: LabeledRows
    threshold: Threshold = None
    plot: Drawing = None
    llm: Annotated[
        str | None,
        Option(
            "Language model that scores rows without p_known, without a trained gate: a folder, a "
            "hub name, LangChain's PROVIDER:MODEL, or with --url the model's name on the server."
        ),
    ] = None
    outcome: Outcome = Outcome()
    model: ModelOptions = ModelOptions()
    server: Server = Server()

    def run(self) -> None:
        """Measure the gate, and write the table and the plot."""
        self.outcome.check(self.plot)
        given, folder = list(objects(self.rows)), self.model.model
        outcomes, gate = outcomes_of(
            given, self.model, None if self.llm is None else (self.llm, self.server)
        )
        limit = 0.5 if self.threshold is None else self.threshold
        if self.threshold is None and gate is not None:
            limit = limit_of(gate, None)
        elif self.threshold is None and folder is not None and Path(folder).is_dir():
            fitted = gate_manifest(Path(folder)).get("threshold")
            limit = limit if fitted is None else FittedThreshold.from_dict(fitted).value
        scored = [
            {**row, "p_known": p} for row, p in zip(given, outcomes.p_known.tolist(), strict=True)
        ]
        table = Table.of(
            f"{len(given)} questions, threshold {limit:g}, {outcomes.known.mean():.1%} known",
            {"": scored},
            partial(measures.gate, threshold=limit),
            draws=self.outcome.draws,
            plot=sweep_plot(outcomes, limit),
            settings=settings_of(self.rows, given, threshold=limit, model=folder),
        )
        self.outcome.publish(table, self.plot)


def outcomes_of(
    rows: Sequence[Row], gate: ModelOptions, llm: tuple[str, Server] | None = None
) -> tuple[Outcomes, Gate | None]:
    """Return outcomes with the rows' own scores if all have one, else with the gate's.

    With `llm` the gate is that of a language model without a trained one. Scores of two gates are
    never mixed. Gives the gate as well, None where it was not loaded.
    """
    if all(row.get("p_known") is not None or row.get("score") is not None for row in rows):
        return Outcomes.of(rows), None
    loaded = models.load_gate(gate) if llm is None else own_gate(models.load_writer(*llm, gate))
    verb = gate_verb(loaded, threshold=0.5)  # any will do: only the scores are wanted
    scores = [
        answer.value["p_known"]
        for chunk in chunks(rows, CHUNK)
        for answer in run_many([verb.flow(row) for row in chunk])
    ]
    return Outcomes.of([{**row, "p_known": p} for row, p in zip(rows, scores, strict=True)]), loaded


def gate_manifest(folder: Path) -> Row:
    """Read a gate's `model.json`; raises `InputError` where the folder holds something else.

    That of a language model, which may have none, holds the thresholds of its draft.
    """
    from fitrag_integrations.models.runtime.folder import read_manifest

    if models.is_language_model(folder):
        return {
            "model": models.model_name(str(folder)),
            "kind": "generator",
            **models.manifest_of(folder),
        }
    kind = models.model_kind(folder)
    if kind not in models.GATE_KINDS:
        holds = "no model.json" if kind is None else f"a model of kind {kind!r}"
        raise InputError.of(
            "--model",
            given=str(folder),
            allowed=f"the folder of a gate ({', '.join(models.GATE_KINDS)}); "
            f"this one holds {holds}",
        )
    return read_manifest(folder, "model.json", kind=kind)


@dataclass(frozen=True)
class EvaluateRoute:
    """Compare each question's action with whether a passage holds an answer.

    Reads question and passages[{title, text}], with has_answer in each or answers to find it by,
    and action and grades of `fitrag route`. Grades the passages if rows have no action or --model
    is given. --upper and --lower decide again from the grades.
    """

    rows: InputRows
    upper: Annotated[
        float | None, Option("Lowest grade of Correct.", min=-1, max=1, default="as in the rows")
    ] = None
    lower: Annotated[
        float | None, Option("Grades below are Incorrect.", min=-1, max=1, default="as in the rows")
    ] = None
    format: Format = "auto"
    outcome: Outcome = Outcome()
    model: ModelOptions = ModelOptions()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure the actions, and write the table."""
        self.outcome.check()
        given: Sequence[Row] = read_rows(self.rows, self.format)
        settings = settings_of(
            [self.rows], given, upper=self.upper, lower=self.lower, model=self.model.model
        )
        if self.model.model is not None or any(row.get("action") is None for row in given):
            given = self._graded(given)
        elif self.upper is not None or self.lower is not None:
            given = [_decided(row, self.upper, self.lower) for row in given]
        table = Table.of(
            f"{len(given)} questions",
            {"": given},
            measures.route,
            draws=self.outcome.draws,
            settings=settings,
        )
        self.outcome.publish(table)

    def _graded(self, rows: Sequence[Row]) -> list[Row]:
        """Grade the passages of every row, and decide."""
        evaluator = models.load_evaluator(self.model)
        thresholds = chosen_thresholds(evaluator, self.upper, self.lower)
        verb, found = route_verb(evaluator, thresholds), list[list[float]]()
        for some in chunked("route", rows, CHUNK, shown=not self.quiet):
            found += [one.value["grades"] for one in run_many(map(verb.flow, some))]
        return [
            {**row, "grades": grades, "action": thresholds.action(grades).value}
            for row, grades in zip(rows, found, strict=True)
        ]


def _decided(row: Row, upper: float | None, lower: float | None) -> Row:
    if upper is None or lower is None:
        raise InputError.of(
            "--upper, --lower",
            given="--upper" if lower is None else "--lower",
            allowed="both, or a --model",
        )
    grades = check_is("grades", row.get("grades"), list, "a list, or a --model to grade with")
    return {**row, "action": ActionThresholds(upper, lower).action(grades).value}
