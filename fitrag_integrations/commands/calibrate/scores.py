"""`fitrag calibrate scores`: a correction of `has_answer` for your own kind of text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.calibrate.crag import in_lots
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.engine.rows import refuse_if
from fitrag_integrations.commands.train.rows import rows_as
from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.scorer.items import Correction
from fitrag_integrations.ports import model_name
from fitrag_integrations.training.calibration import fit_scores
from fitrag_integrations.training.rows import passage_row


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
        folder = None if self.model is None else str(self.model)
        scorer = models.load_scorer(self.hardware.of(folder))
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
