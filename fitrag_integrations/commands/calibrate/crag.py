"""`fitrag calibrate evaluator` and `verdict`: thresholds of CRAG's actions and strips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import chunks
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.train.rows import objects, rows_as
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.thresholds.fits import (
    GradedStrip,
    fit_actions,
    fit_strip,
    fit_verdict,
)
from fitrag_integrations.methods.crag.evaluator import SENTENCES, ActionThresholds
from fitrag_integrations.methods.crag.refiner import TOP_N, strips
from fitrag_integrations.methods.crag.verdict import ListVerdict, list_numbers
from fitrag_integrations.models.evaluator.evaluator import RetrievalEvaluator, store_fields
from fitrag_integrations.ports import model_name
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.rows import Judged, judged_row
from fitrag_integrations.types import Action, Passage

AT_ONCE = 512
Cuts: TypeAlias = ActionThresholds | ListVerdict


@dataclass(frozen=True)
class CalibrateEvaluator:
    """Fit upper, lower and strip threshold, and store them with the evaluator.

    Reads rows of `fitrag label evaluator` that were not trained on. `upper` is the lowest threshold
    at which Correct has a precision of --correct, `lower` the highest at which Incorrect has one of
    --incorrect. `strip` is the highest at which the answer survives in --survival of the passages
    that hold it; it requires rows with answers.
    """

    rows: Annotated[list[Path], Argument("Judged rows: .jsonl or .jsonl.gz.")]
    model: Annotated[Path, Option("The evaluator's folder, changed in place.")]
    correct: Annotated[float, Option("Minimum precision of Correct.", min=0, max=1)] = 0.85
    incorrect: Annotated[float, Option("Minimum precision of Incorrect.", min=0, max=1)] = 0.8
    survival: Annotated[float, Option("Minimum fraction of answers kept.", min=0, max=1)] = 0.96
    sentences: Annotated[int, Option("Sentences in a strip.", min=1)] = SENTENCES
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Fit and store them, and report the figures."""
        evaluator = models.load_evaluator(self.hardware.of(str(self.model)))
        assert isinstance(evaluator, RetrievalEvaluator)
        given = rows_as(self.rows, judged_row)
        grades = in_lots(evaluator.evaluate, [pair for row in given for pair in row.pairs])
        best = [max(next(grades) for _ in row.passages) for row in given]
        holds = [any(row.holds) for row in given]
        upper, lower = fit_actions(best, holds, correct=self.correct, incorrect=self.incorrect)
        cut = graded_strips(evaluator, given, self.sentences)
        strip, survived, kept = fit_strip(cut, survival=self.survival, top_n=TOP_N)
        thresholds = ActionThresholds(upper, lower, strip, evaluator.name, self.sentences)
        store_fields(self.model, name=evaluator.name, thresholds=thresholds)
        actions = [thresholds.action([one]) for one in best]
        typer.echo(describe(thresholds, actions, holds), err=True)
        cost = f"strips from {strip:.3f}: {survived:.3f} survive in {kept:.3f} of the tokens"
        typer.echo(cost, err=True)


def graded_strips(
    evaluator: RetrievalEvaluator, rows: Sequence[Judged], sentences: int
) -> list[list[GradedStrip]]:
    """Grade the strips of the first passage of each row that holds the answer.

    Args:
        evaluator: Evaluator to grade with.
        rows: Judged questions.
        sentences: Maximum sentences of a strip.
    """
    first = [
        (row, next((p for p, h in zip(row.passages, row.holds, strict=True) if h), None))
        for row in rows
    ]
    cut = [
        (row, strips(right, sentences=sentences))
        for row, right in first
        if row.answers and right is not None
    ]
    pairs = [(row.question, strip.as_passage()) for row, several in cut for strip in several]
    grades = in_lots(evaluator.evaluate, pairs)
    return [
        [
            GradedStrip(
                next(grades),
                approximate_tokens(strip.text),
                contains_answer(strip.text, row.answers),
            )
            for strip in several
        ]
        for row, several in cut
    ]


def in_lots(call: Any, pairs: Sequence[tuple[str, Passage]]) -> Iterator[Any]:
    """Yield the answers of a model to pairs, of which it gets some at once."""
    return (answer for lot in chunks(pairs, AT_ONCE) for answer in call(lot))


def describe(cuts: Cuts, actions: Sequence[Action], holds: Sequence[bool]) -> str:
    """Return how often each action comes, and how often rightly.

    Args:
        cuts: The thresholds.
        actions: Action of each question.
        holds: Whether its passages hold the answer.
    """
    parts = []
    for name in (Action.CORRECT, Action.AMBIGUOUS, Action.INCORRECT):
        truths = [truth for action, truth in zip(actions, holds, strict=True) if action is name]
        parts.append(f"{name} {len(truths)}, {sum(truths)} of them with the answer")
    return f"upper {cuts.upper:.3f}, lower {cuts.lower:.3f}: {'; '.join(parts)}"


NONE = "none"
ROLES = {
    "scorer": ("load_scorer", "score"),
    "evaluator": ("load_evaluator", "evaluate"),
    "reader": ("load_reader", "read"),
}
Folder = Annotated[
    str | None, Option("Model name or folder; none: leave it out.", default="the embedded one")
]


@dataclass(frozen=True)
class CalibrateVerdict:
    """Fit how CRAG's action follows from a whole list, instead of from its best grade.

    Reads rows of `fitrag label evaluator` over your own retriever that no model was trained on:
    at least 20 lists with the answer and 20 without. `upper` and `lower` are chosen as by
    `fitrag calibrate evaluator`. `fitrag route --verdict OUT` and `Crag(verdict=OUT)` use it.
    """

    rows: Annotated[list[Path], Argument("Judged rows: .jsonl or .jsonl.gz.")]
    out: Annotated[Path, Option("Folder to write the verdict to.")]
    scorer: Folder = None
    evaluator: Folder = None
    reader: Folder = None
    correct: Annotated[float, Option("Minimum precision of Correct.", min=0, max=1)] = 0.85
    incorrect: Annotated[float, Option("Minimum precision of Incorrect.", min=0, max=1)] = 0.8
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Run the models, fit, and report the result."""
        given = [judged_row(row) for row in objects(self.rows)]
        pairs = [pair for row in given for pair in row.pairs]
        found, fitted_on = {}, {}
        for role, (load, verb) in ROLES.items():
            if (name := getattr(self, role)) != NONE:
                model: Any = getattr(models, load)(self.hardware.of(name))
                answers = in_lots(getattr(model, verb), pairs)
                found[role] = [[next(answers) for _ in row.passages] for row in given]
                fitted_on[role] = model_name(model)
        numbers = [
            list_numbers(*(found[role][at] if role in found else () for role in ROLES))
            for at in range(len(given))
        ]
        holds = [any(row.holds) for row in given]
        verdict, chances = fit_verdict(
            numbers, holds, fitted_on, correct=self.correct, incorrect=self.incorrect
        )
        verdict.save(self.out)
        actions = [verdict.action(chance) for chance in chances]
        typer.echo(describe(verdict, actions, holds), err=True)
