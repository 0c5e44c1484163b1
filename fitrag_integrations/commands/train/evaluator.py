"""`fitrag label evaluator` and `fitrag train evaluator`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from fitrag_integrations.commands.engine.outputs import settled
from fitrag_integrations.commands.train.rows import in_processes, objects, pool_of, rows_as
from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.loaders import read_questions
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, fit_evaluator
from fitrag_integrations.training.loop.loop import Running
from fitrag_integrations.training.negatives import candidates
from fitrag_integrations.training.options import Out, Rows
from fitrag_integrations.training.rows import (
    Judged,
    judged_json,
    judged_row,
    passage_row,
    write_jsonl,
)
from fitrag_integrations.types import Passage

SIGNALS = {  # each with the field it needs, and what that must be
    "answer": ("answers", "a list of texts"),
    "title": ("title", "the gold title, a text or a list of texts"),
    "passage": ("passage", "the gold passage, an object with a text"),
}
OURS = "fitrag"
Placed: TypeAlias = Sequence[tuple[str, Row]]  # each with its place, for errors to name


@dataclass(frozen=True)
class LabelEvaluator:
    """Judge what was retrieved for each question: does it hold the answer?

    Reads question, passages[{title, text}] (not with --pool) and what the signal needs: answers[],
    title (the gold title, one or several), or passage{title, text} (the gold passage). Writes the
    passages with has_answer; those that are not right are the negatives, of the same retrieval.
    The paper's are PopQA's rows (--format popqa), titled by their subject, with --signal title.
    """

    rows: Rows
    out: Out
    signal: Annotated[str, Option("What makes a passage right: answer, title or passage.")] = (
        "answer"
    )
    pool: Annotated[
        Path | None, Option("Passages to retrieve from by BM25.", default="each row's own")
    ] = None
    depth: Annotated[int, Option("Passages a question.", min=1)] = 10
    format: Annotated[
        str, Option("Shape of the rows: fitrag, popqa, or another of `fitrag evaluate`.")
    ] = OURS

    def run(self) -> None:
        """Judge them, and tell how many are right."""
        if self.signal not in SIGNALS:
            raise InputError.of("--signal", given=self.signal, allowed=", ".join(SIGNALS))
        judged = [*self._judged(list(self._given()))]
        with settled(self.out, "label evaluator", self, anew=True):
            write_jsonl(self.out, map(judged_json, judged))
        right = sum(any(row.holds) for row in judged)
        labels = [label for row in judged for label in row.holds]
        text = f"{right} with a right passage; {sum(labels)} of {len(labels)} pairs are right"
        typer.echo(f"{len(judged)} questions, {text}", err=True)

    def _given(self) -> Iterator[tuple[str, Row]]:
        for path in self.rows:
            ours = self.format == OURS
            rows = objects([path]) if ours else read_questions(str(path), self.format).rows
            for at, row in enumerate(rows, start=1):
                place = f"{path.name}, row {at}"
                check_text(f"{place}: question", row.get("question"), blank=False)
                yield place, row

    def _judged(self, rows: Placed) -> Iterator[Judged]:
        rights = [_right(row, self.signal, place) for place, row in rows]
        for (_, row), right, passages in zip(rows, rights, self._retrieved(rows), strict=True):
            if passages:
                answers = tuple(row.get("answers") or ())
                holds = tuple(int(right(passage)) for passage in passages)
                yield Judged(row["question"], answers, tuple(passages), holds)

    def _retrieved(self, rows: Placed) -> list[list[Passage]]:
        if self.pool is not None:
            questions = [row["question"] for _, row in rows]
            return candidates(questions, pool_of(self.pool), depth=self.depth)
        for place, row in rows:
            given, allowed = row.get("passages"), "a list of passages, or --pool to retrieve from"
            if not isinstance(given, list):
                raise InputError.of(f"{place}: passages", given=given, allowed=allowed)
        return [[passage_row(one) for one in row["passages"][: self.depth]] for _, row in rows]


def _right(row: Row, signal: str, place: str) -> Callable[[Passage], bool]:
    """Return how a row's right passages are told; raises `InputError` where it lacks what tells."""
    field, allowed = SIGNALS[signal]
    given = row.get(field)
    if given and signal == "answer" and isinstance(given, list):
        return lambda passage: contains_answer(f"{passage.title} {passage.text}", given)
    if given and signal == "title" and isinstance(given, str | list):
        titles = {_alike(one) for one in ([given] if isinstance(given, str) else given)}
        return lambda passage: _alike(passage.title) in titles
    if given and signal == "passage" and isinstance(given, dict):
        return lambda passage: _alike(passage.text) == _alike(given["text"])
    text = f"{allowed}: --signal {signal} needs it"
    raise InputError.of(f"{place}: {field}", given=given, allowed=text)


def _alike(text: str) -> str:
    return " ".join(text.split()).casefold()


@dataclass(frozen=True)
class TrainEvaluator:
    """Fit a retrieval evaluator on rows of `fitrag label evaluator`.

    A stopped run goes on from its last checkpoint. The paper's (CRAG, appendix B.3): --base
    google-t5/t5-large --loss regression --tune full --learning-rate 1e-4 --batch 12 --epochs 8.
    `accelerate launch --multi_gpu` and `torchrun` start it in several processes.
    """

    rows: Rows
    out: Out
    plan: EvaluatorPlan = EvaluatorPlan()
    running: Running = Running()

    def run(self) -> None:
        """Fit it, and tell its figures on what was held out."""
        given = rows_as(self.rows, judged_row)
        plan = replace(self.plan, name=self.plan.name or self.out.name)
        with in_processes():
            figures = fit_evaluator(given, self.out, plan, self.running)
        if figures or not plan.validation:
            text = str(figures) if figures else "no question held out (--validation): no figures"
            typer.echo(text, err=True)
