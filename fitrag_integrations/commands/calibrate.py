"""`fitrag calibrate`: thresholds of gate, reader and evaluator, and a correction of scores."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import (
    AsJson,
    EncoderHardware,
    Hardware,
    ModelOptions,
    Server,
)
from fitrag_integrations.commands.engine.rows import labelled, objects, rows_as
from fitrag_integrations.commands.evaluate.decisions import gate_manifest, outcomes_of
from fitrag_integrations.commands.evaluate.options import LabeledRows
from fitrag_integrations.core.checks import check_many, check_number, check_text, trait
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.thresholds.fits import (
    GradedStrip,
    fit_abstention,
    fit_actions,
    fit_strip,
)
from fitrag_integrations.evaluation.thresholds.risk import choose_threshold
from fitrag_integrations.evaluation.thresholds.scores import fit_scores
from fitrag_integrations.methods.crag.evaluator import SENTENCES, ActionThresholds
from fitrag_integrations.methods.crag.refiner import TOP_N, strips
from fitrag_integrations.models.encoder.items import Correction
from fitrag_integrations.models.evaluator.evaluator import RetrievalEvaluator, store_fields
from fitrag_integrations.models.runtime.folder import read_manifest, write_manifest
from fitrag_integrations.ports import Pair, model_name
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.options import Rows, Seed
from fitrag_integrations.training.rows import Judged, in_lists, judged_row, passage_row
from fitrag_integrations.types import Action
from fitrag_integrations.values.prompt import shots_id

AT_ONCE = 512


@dataclass(frozen=True)
class CalibrateGate:
    """Fit the threshold above which a question counts as known, and store it with the gate.

    Reads known, or right_without and right_with (0 or 1), and the gate's p_known. If a row has no
    p_known, the gate scores all: they need question, and may have draft. A local language model
    without a trained gate is judged by its draft, and the threshold is stored in its model.json.

    Targets: best accuracy; share, which retrieves for at most --max-share of the questions; drop,
    which loses at most --max-drop of the accuracy of always retrieving, with --confidence; and
    conformal, the same on average.
    """

    rows: LabeledRows
    model: Annotated[
        Path, Option("The gate's folder, or that of the language model itself, changed in place.")
    ]
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
    shots: Annotated[
        Path | None,
        Option("Examples for the language model, the same as in `fitrag gate`.", default="none"),
    ] = None
    resamples: Annotated[int, Option("Bootstrap resamples, 0 for none.", min=0)] = 200
    seed: Seed = 0
    hardware: Hardware = Hardware()
    json: AsJson = False

    def run(self) -> None:
        """Fit and store the threshold, and report its figures."""
        server, writes = Server(shots=self.shots), models.is_language_model(self.model)
        refuse_if(
            bool(self.shots) and not writes,
            "--shots",
            str(self.shots),
            "none for a trained gate, which is shown no examples",
        )
        manifest, given = gate_manifest(self.model), list(objects(self.rows))
        before = manifest.get("threshold")
        named = before.get("model") if isinstance(before, dict) else None
        own = str(named or manifest.get("model") or "")
        judged = own if self.fitted_for is None else self.fitted_for
        outcomes, loaded = outcomes_of(
            given,
            ModelOptions(model=str(self.model), **asdict(self.hardware)),
            (str(self.model), server) if writes else None,
        )
        name = trait(trait(loaded, "drafter", object), "name", str)
        drafts = trait(loaded, "draft_tokens", int) and any(r.get("draft") is None for r in given)
        refuse_if(
            drafts and name is not None and judged not in ("", name),
            "draft",
            f"rows that leave it to {name!r}",
            f"drafts of {judged!r}, or --fitted-for {name}",
        )
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
        shots = shots_id(server.examples()) if writes else ""
        fields = {**manifest, "threshold": {**fitted.to_dict(), "shots": shots}}
        write_manifest(self.model, "model.json", kind=str(manifest["kind"]), fields=fields)
        if outcomes.known.min() == outcomes.known.max():
            kind = "known" if outcomes.known.max() else "unknown"
            typer.echo(
                f"fitrag calibrate gate: all {len(outcomes)} questions are {kind}: a threshold "
                "fitted on them is meaningless",
                err=True,
            )
        figures = {
            "accuracy": outcomes.accuracy(fitted.value),
            "share": outcomes.share(fitted.value),
        }
        interval = "" if fitted.low is None else f" ({fitted.low:.3f} to {fitted.high:.3f})"
        typer.echo(
            f"threshold {fitted.value:.3f}{interval}: accuracy {figures['accuracy']:.3f}, share of "
            f"retrieval {figures['share']:.3f} of {fitted.rows} rows; {fitted.target}",
            err=True,
        )
        if self.json:
            typer.echo(json.dumps({**fitted.to_dict(), **figures}))


@dataclass(frozen=True)
class CalibrateReader:
    """Fit the score below which the reader returns no answer, and store it with the reader."""

    rows: Rows
    model: Annotated[Path, Option("Reader's folder, changed in place.")]
    depth: Annotated[int, Option("Passages per question that the reader will read.")] = 5

    def run(self) -> None:
        """Fit and store the score, and report how often it is right."""
        manifest = read_manifest(self.model, "model.json", kind="reader")
        threshold, accuracy = fit_abstention(labelled(self.rows), depth=self.depth)
        fields = {**manifest, "thresholds": {"abstain_below": threshold}}
        write_manifest(self.model, "model.json", kind="reader", fields=fields)
        typer.echo(f"abstain below {threshold}: right on {accuracy:.3f} of the rows", err=True)


@dataclass(frozen=True)
class CalibrateEvaluator:
    """Fit upper, lower and strip threshold, and store them with the evaluator.

    Reads rows of `fitrag label evaluator` that were not trained on. `upper` is the lowest threshold
    at which Correct has a precision of --correct, `lower` the highest at which Incorrect has one of
    --incorrect. `strip` is the highest at which the answer survives in --survival of the passages
    that hold it; it requires rows with answers.
    """

    rows: LabeledRows
    model: Annotated[Path, Option("The evaluator's folder, changed in place.")]
    correct: Annotated[float, Option("Minimum precision of Correct.", min=0, max=1)] = 0.85
    incorrect: Annotated[float, Option("Minimum precision of Incorrect.", min=0, max=1)] = 0.8
    survival: Annotated[float, Option("Minimum fraction of answers kept.", min=0, max=1)] = 0.96
    sentences: Annotated[int, Option("Sentences in a strip.", min=1)] = SENTENCES
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Fit and store the thresholds, and report their figures."""
        evaluator = models.load_evaluator(self.hardware.of(str(self.model)))
        assert isinstance(evaluator, RetrievalEvaluator)
        grade = in_lots(evaluator.evaluate)
        rows = rows_as(self.rows, judged_row)
        best = [max(grades) for grades in in_lists(grade, [row.pairs for row in rows])]
        holds = [any(row.holds) for row in rows]
        upper, lower = fit_actions(best, holds, correct=self.correct, incorrect=self.incorrect)
        strip, survived, kept = fit_strip(
            graded_strips(rows, grade, self.sentences), survival=self.survival, top_n=TOP_N
        )
        thresholds = ActionThresholds(upper, lower, strip, evaluator.name, self.sentences)
        store_fields(self.model, name=evaluator.name, thresholds=thresholds)
        actions = [thresholds.action([one]) for one in best]
        typer.echo(describe(thresholds, actions, holds), err=True)
        typer.echo(
            f"strips from {strip:.3f}: {survived:.3f} survive in {kept:.3f} of the tokens", err=True
        )


def in_lots(call: Callable[[list[Pair]], Iterable[T]]) -> Callable[[list[Pair]], Iterable[T]]:
    """Return a function that sends at most `AT_ONCE` pairs at a time to a model."""
    return lambda pairs: (answer for lot in chunks(pairs, AT_ONCE) for answer in call(lot))


def graded_strips(
    rows: Sequence[Judged], grade: Callable[[list[Pair]], Iterable[float]], sentences: int
) -> list[list[GradedStrip]]:
    """Cut the first passage that holds the answer, of each row with answers, and grade its strips.

    Args:
        rows: Judged rows.
        grade: Call that grades pairs.
        sentences: Sentences in a strip.
    """
    rows = [row for row in rows if row.answers and any(row.holds)]
    cut = [strips(row.passages[row.holds.index(1)], sentences=sentences) for row in rows]
    pairs = [
        [(row.question, strip.as_passage()) for strip in own]
        for row, own in zip(rows, cut, strict=True)
    ]
    graded = []
    for row, own, grades in zip(rows, cut, in_lists(grade, pairs), strict=True):
        texts = [strip.text for strip in own]
        holds = [contains_answer(text, row.answers) for text in texts]
        graded.append(list(map(GradedStrip, grades, map(approximate_tokens, texts), holds)))
    return graded


def describe(cuts: ActionThresholds, actions: Sequence[Action], holds: Sequence[bool]) -> str:
    """Return how often each action was taken, and how often the passages had the answer.

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
    seed: Seed = 0
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Score the lists, fit and write the correction, and report its figures."""
        kind = "bilabel" if self.model is None else models.model_kind(self.model)
        refuse_if(
            kind not in ("bilabel", "onepass"),
            "--model",
            str(self.model),
            "a folder of `fitrag train bilabel`",
        )
        rows = rows_as(self.rows, list_row)
        scorer = models.load_scorer(
            self.hardware.of(None if self.model is None else str(self.model))
        )
        scores = in_lists(in_lots(scorer.score), [pairs for pairs, _ in rows])
        labeled, gold, unlabeled = list[list[float]](), list[list[int]](), list[list[float]]()
        for own, (_, labels) in zip(scores, rows, strict=True):
            logits = [check_number("has_answer_logit", each.has_answer_logit) for each in own]
            known = [at for at, label in enumerate(labels) if label is not None]
            if known:
                labeled.append([logits[at] for at in known])
                gold.append([label for label in labels if label is not None])
            else:
                unlabeled.append(logits)
        fitted = fit_scores(labeled, gold, unlabeled, seed=self.seed)
        before, after = fitted.losses
        text = f"calibration error {fitted.errors[0]:.3f} without, {fitted.errors[1]:.3f} with it"
        refuse_if(
            after >= before,
            f"the correction does not help on lists left out ({text}; log loss {before:.4f}, "
            f"{after:.4f}): use the scorer without it, or label more lists",
        )
        source = "embedded" if self.model is None else os.path.relpath(self.model, self.out)
        correction = Correction(fitted.slope, fitted.shift, model_name(scorer), source)
        figures = {k: v for k, v in asdict(fitted).items() if k not in ("slope", "shift")}
        correction.save(self.out, **figures)
        slope, shift = (
            "[{:.2f}, {:.2f}]".format(*ends)
            for ends in (fitted.slope_interval, fitted.shift_interval)
        )
        typer.echo(f"slope {fitted.slope:.2f} {slope}, shift {fitted.shift:.2f} {shift}", err=True)
        typer.echo(f"{text}, on lists left out; {fitted.labels} labels", err=True)


def list_row(row: Mapping[str, object]) -> tuple[list[Pair], list[int | None]]:
    """Read a list: its pairs, and the label of each, None where it has none."""
    question = check_text("question", row.get("question"), blank=False)
    passages = check_many("passages", row.get("passages"), dict)
    labels = [each.get("has_answer") for each in passages]
    refuse_if(
        not passages or any(one not in (0, 1, None) for one in labels),
        "passages",
        labels,
        "at least one; has_answer of each 0, 1 or missing",
    )
    return [(question, passage_row(each)) for each in passages], labels
