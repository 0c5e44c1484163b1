"""`fitrag calibrate evaluator`, `verdict` and `scores`: thresholds and scales of judged passages.

CRAG's actions and strips, its verdict on a whole list, and a correction of `has_answer`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import chunks
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.train.rows import objects, rows_as
from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError, refuse_if
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
from fitrag_integrations.models.scorer.items import Correction
from fitrag_integrations.ports import model_name
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.calibration import fit_scores
from fitrag_integrations.training.rows import judged_row, passage_row
from fitrag_integrations.types import Action, Passage

AT_ONCE = 512


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
        cut = [  # of the first passage that holds the answer
            (row, strips(right, sentences=self.sentences))
            for row in given
            for right in [p for p, h in zip(row.passages, row.holds, strict=True) if h][:1]
            if row.answers
        ]
        parts = [(row.question, strip.as_passage()) for row, several in cut for strip in several]
        graded = in_lots(evaluator.evaluate, parts)
        rows = [
            [
                GradedStrip(
                    next(graded),
                    approximate_tokens(strip.text),
                    contains_answer(strip.text, row.answers),
                )
                for strip in several
            ]
            for row, several in cut
        ]
        strip, survived, kept = fit_strip(rows, survival=self.survival, top_n=TOP_N)
        thresholds = ActionThresholds(upper, lower, strip, evaluator.name, self.sentences)
        store_fields(self.model, name=evaluator.name, thresholds=thresholds)
        typer.echo(
            describe(thresholds, [thresholds.action([one]) for one in best], holds), err=True
        )
        cost = f"strips from {strip:.3f}: {survived:.3f} survive in {kept:.3f} of the tokens"
        typer.echo(cost, err=True)


def in_lots(call: Any, pairs: Sequence[tuple[str, Passage]]) -> Iterator[Any]:
    """Yield the answers of a model to pairs, of which it gets some at once."""
    return (answer for lot in chunks(pairs, AT_ONCE) for answer in call(lot))


def describe(
    cuts: ActionThresholds | ListVerdict, actions: Sequence[Action], holds: Sequence[bool]
) -> str:
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
        typer.echo(
            describe(verdict, [verdict.action(chance) for chance in chances], holds), err=True
        )


@dataclass(frozen=True)
class CalibrateScores:
    """Correct the probabilities of `has_answer` on your own kind of text.

    Reads lists of passages as your retriever returns them. Fifty passages with has_answer (0 or 1),
    in whole lists, fit a slope and a shift of its logit. Lists without has_answer, if any, then
    move the shift to the rate of answers in them. Nothing is written if lists left out of the fit
    are not predicted better.

    `--scorer OUT`, `--model OUT` and `BiLabelScorer.from_pretrained(OUT)` load the scorer with the
    correction; it is refused for another scorer.
    """

    rows: Annotated[list[Path], Argument("Rows of question and passages: .jsonl or .jsonl.gz.")]
    out: Annotated[Path, Option("Folder to write the correction to.")]
    model: Annotated[Path | None, Option("Scorer's folder.", default="the embedded one")] = None
    seed: Annotated[int, Option("Random seed.")] = 0
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Score the lists, fit, and report the figures."""
        kind = "bilabel" if self.model is None else models.model_kind(self.model)
        allowed = "a folder of `fitrag train bilabel` or `onepass`"
        refuse_if(kind not in ("bilabel", "onepass"), "--model", str(self.model), allowed)
        given = rows_as(self.rows, list_row)
        scorer = models.load_scorer(
            self.hardware.of(None if self.model is None else str(self.model))
        )
        scores = in_lots(scorer.score, [pair for pairs, _ in given for pair in pairs])
        logits = [[next(scores).has_answer_logit for _ in pairs] for pairs, _ in given]
        labeled = [
            [(x, y) for x, y in zip(own, labels, strict=True) if y is not None]
            for own, (_, labels) in zip(logits, given, strict=True)
        ]
        some = [list(zip(*each, strict=True)) for each in labeled if each]
        others = [own for own, each in zip(logits, labeled, strict=True) if not each]
        fitted = fit_scores([x for x, _ in some], [y for _, y in some], others, seed=self.seed)
        before, after = fitted.losses
        text = f"calibration error {fitted.errors[0]:.3f} without, {fitted.errors[1]:.3f} with it"
        if after >= before:
            raise InputError(
                f"the correction does not help on lists left out ({text}; log loss {before:.4f}, "
                f"{after:.4f}): use the scorer without it, or label more lists"
            )
        source = "embedded" if self.model is None else os.path.relpath(self.model, self.out)
        Correction(fitted.slope, fitted.shift, model_name(scorer), source).save(
            self.out, **{k: v for k, v in asdict(fitted).items() if k not in ("slope", "shift")}
        )
        ends = [
            f"[{low:.2f}, {high:.2f}]"
            for low, high in (fitted.slope_interval, fitted.shift_interval)
        ]
        typer.echo(
            f"slope {fitted.slope:.2f} {ends[0]}, shift {fitted.shift:.2f} {ends[1]}", err=True
        )
        typer.echo(f"{text}, on lists left out; {fitted.labels} labels", err=True)


def list_row(row: Mapping[str, Any]) -> tuple[list[tuple[str, Any]], list[int | None]]:
    """Read a list: its pairs, and the label of each, None where it has none."""
    question = check_text("question", row.get("question"), blank=False)
    passages = check_many("passages", row.get("passages"), dict)
    labels = [each.get("has_answer") for each in passages]
    wrong = not passages or any(one not in (0, 1, None) for one in labels)
    refuse_if(wrong, "passages", labels, "at least one; has_answer of each 0, 1 or missing")
    return [(question, passage_row(each)) for each in passages], labels
