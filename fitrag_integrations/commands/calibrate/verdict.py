"""`fitrag calibrate verdict`: fit how a whole list is judged to lists of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.calibrate.evaluator import AT_ONCE, describe
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.train.rows import objects
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.evaluation.thresholds.fits import fit_verdict
from fitrag_integrations.methods.crag.verdict import list_numbers
from fitrag_integrations.ports import model_name
from fitrag_integrations.training.rows import Judged, judged_row
from fitrag_integrations.types import Passage

NONE = "none"
VERBS = {"scorer": "score", "evaluator": "evaluate", "reader": "read"}
Folder = Annotated[
    str | None, Option("Model name or folder, or none to do without.", default="the embedded one")
]


@dataclass(frozen=True)
class CalibrateVerdict:
    """Fit how CRAG's action follows from a whole list, instead of from its best grade.

    Reads rows of `fitrag label evaluator`, as your own retriever gave them and no model was trained
    on: at least 20 lists with the answer and 20 without. `upper` and `lower` are chosen as by
    `fitrag calibrate evaluator`. `fitrag route --verdict OUT` and `Crag(verdict=OUT)` use it.
    """

    rows: Annotated[list[Path], Argument("Judged rows: .jsonl or .jsonl.gz.")]
    out: Annotated[Path, Option("Folder to write the verdict to.")]
    scorer: Folder = None
    evaluator: Folder = None
    reader: Folder = None
    correct: Annotated[float, Option("Of Correct, the share that has to be.", min=0, max=1)] = 0.85
    incorrect: Annotated[float, Option("Of Incorrect, the share that has to be.", min=0, max=1)] = (
        0.8
    )
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Run the models, fit, and report the result."""
        given = [judged_row(row) for row in objects(self.rows)]
        named = {"scorer": self.scorer, "evaluator": self.evaluator, "reader": self.reader}
        loaded = {role: self._load(role, name) for role, name in named.items() if name != NONE}
        found = {role: _answers(model, VERBS[role], given) for role, model in loaded.items()}
        numbers = [
            list_numbers(*(found[role][at] if role in found else () for role in VERBS))
            for at in range(len(given))
        ]
        holds = [any(row.holds) for row in given]
        fitted_on = {role: model_name(model) for role, model in loaded.items()}
        verdict, chances = fit_verdict(
            numbers, holds, fitted_on, correct=self.correct, incorrect=self.incorrect
        )
        verdict.save(self.out)
        actions = [verdict.action(chance) for chance in chances]
        typer.echo(describe(verdict, actions, holds), err=True)

    def _load(self, role: str, name: str | None) -> Any:
        loads = {
            "scorer": models.load_scorer,
            "evaluator": models.load_evaluator,
            "reader": models.load_reader,
        }
        return loads[role](self.hardware.of(name))


def _answers(model: Any, verb: str, rows: Sequence[Judged]) -> list[list[Any]]:
    """Run a model on all pairs; return its answers by list."""
    pairs = [pair for row in rows for pair in row.pairs]
    answers = _asked(getattr(model, verb), pairs)
    return [[next(answers) for _ in row.passages] for row in rows]


def _asked(call: Any, pairs: Sequence[tuple[str, Passage]]) -> Iterator[Any]:
    for at in range(0, len(pairs), AT_ONCE):
        yield from call(pairs[at : at + AT_ONCE])
