"""`fitrag label bilabel`, `evaluator` and `negatives`: labels of the passages of a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Depth
from fitrag_integrations.commands.engine.outputs import settled
from fitrag_integrations.commands.engine.rows import objects, rows_as
from fitrag_integrations.commands.label.asking import (
    FOR_READERS,
    Asked,
    AskingPlan,
    Questions,
)
from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.rows import OURS, read_rows
from fitrag_integrations.flow import Flow
from fitrag_integrations.training.asking_llm import AskLLM
from fitrag_integrations.training.collecting import count_labels, passage_labels
from fitrag_integrations.training.negatives import mine_negatives, searching
from fitrag_integrations.training.options import Out, Rows
from fitrag_integrations.training.rows import (
    Judged,
    judged_json,
    passage_row,
    reading_json,
    reading_row,
    write_jsonl,
)
from fitrag_integrations.types import Passage

SIGNALS = {  # each with the field it needs, and what that must be
    "answer": ("answers", "a list of texts"),
    "title": ("title", "the gold title, a text or a list of texts"),
    "passage": ("passage", "the gold passage, an object with a text"),
}


@dataclass(frozen=True)
class LabelEvaluator:
    """Label for each retrieved passage whether it holds the answer.

    Reads question, passages[{title, text}] (not with --pool) and what the signal needs: answers[],
    title (the gold title, or a list), or passage{title, text} (the gold passage). Adds has_answer
    to each passage. For the paper's rows use --format popqa --signal title.
    """

    rows: Rows
    out: Out
    signal: Annotated[str, Option("Signal that a passage is right: answer, title or passage.")] = (
        "answer"
    )
    pool: Annotated[
        Path | None, Option("Passages to search by BM25.", default="each row's own")
    ] = None
    depth: Depth = 10
    format: Annotated[
        str, Option("Shape of the rows: fitrag, popqa, or another of `fitrag evaluate`.")
    ] = OURS

    def run(self) -> None:
        """Label the passages, and report how many are right."""
        refuse_if(self.signal not in SIGNALS, "--signal", self.signal, ", ".join(SIGNALS))
        rows: list[Row] = []
        places: list[str] = []
        for path in self.rows:
            given = objects([path]) if self.format == OURS else read_rows(path, self.format)
            for at, row in enumerate(given, start=1):
                places.append(f"{path.name}, row {at}")
                check_text(f"{places[-1]}: question", row.get("question"), blank=False)
                rows.append(row)
        rights = [_right(row, self.signal, place) for row, place in zip(rows, places, strict=True)]
        if self.pool is not None:
            pool, questions = rows_as([self.pool], passage_row), [row["question"] for row in rows]
            found = searching(pool, depth=self.depth)(questions)
        else:
            for row, place in zip(rows, places, strict=True):
                own, allowed = row.get("passages"), "a list of passages, or --pool to retrieve from"
                refuse_if(not isinstance(own, list), f"{place}: passages", own, allowed)
            found = [list(map(passage_row, row["passages"][: self.depth])) for row in rows]
        judged = [
            Judged(
                row["question"],
                tuple(row.get("answers") or ()),
                tuple(passages),
                tuple(int(right(passage)) for passage in passages),
            )
            for row, right, passages in zip(rows, rights, found, strict=True)
            if passages
        ]
        with settled(self.out, "label evaluator", self, anew=True):
            write_jsonl(self.out, map(judged_json, judged))
        right_rows = sum(any(row.holds) for row in judged)
        labels = [label for row in judged for label in row.holds]
        text = f"{right_rows} with a right passage; {sum(labels)} of {len(labels)} pairs are right"
        typer.echo(f"{len(judged)} questions, {text}", err=True)


def _right(row: Row, signal: str, place: str) -> Callable[[Passage], bool]:
    """Return the test for a row's right passages.

    Raises `InputError` for a row without the field that the signal requires.
    """
    field, allowed = SIGNALS[signal]
    given = row.get(field)
    if given and signal == "answer" and isinstance(given, list):
        return lambda passage: contains_answer(f"{passage.title} {passage.text}", given)
    if given and signal == "title" and isinstance(given, str | list):
        titles = {_alike(one) for one in ([given] if isinstance(given, str) else given)}
        return lambda passage: _alike(passage.title) in titles
    if given and signal == "passage" and isinstance(given, dict):
        return lambda passage: _alike(passage.text) == _alike(given["text"])
    raise InputError.of(
        f"{place}: {field}", given=given, allowed=f"{allowed}: --signal {signal} needs it"
    )


def _alike(text: str) -> str:
    return " ".join(text.split()).casefold()


@dataclass(frozen=True)
class LabelNegatives:
    """Add the best BM25 passages without an answer to each reading row."""

    rows: Rows
    out: Out
    pool: Annotated[Path, Option("Passages (title, text) to search for candidates: .jsonl.")]
    depth: Annotated[int, Option("Passages to retrieve per question.")] = 40
    keep: Annotated[int, Option("Negatives per question.")] = 8

    def run(self) -> None:
        """Find the negatives, and write the rows."""
        given = rows_as(self.rows, reading_row)
        mined = mine_negatives(
            given, rows_as([self.pool], passage_row), depth=self.depth, keep=self.keep
        )
        with settled(self.out, "label negatives", self, anew=True):
            write_jsonl(self.out, map(reading_json, mined))
        found = sum(len(row.negatives) for row in mined)
        typer.echo(f"{len(mined)} rows, {found} negatives", err=True)


@dataclass(frozen=True)
class LabelBilabel(AskingPlan):
    """Label passages: does each hold the answer, and is the model right when it reads it?

    These are the two labels of FIT-RAG's scorer (section 4.2.1). Questions have their own passages,
    or they are retrieved from --pool or --index. Adds has_answer, llm_prefer and answer to each
    passage; without an answer, llm_prefer is null and llm_error has the reason. To continue a
    stopped run, run the same command again: no call is repeated.
    """

    name: ClassVar[str] = "label bilabel"
    unanswered: Annotated[
        bool, Option("Accept rows without answers if their `passage` holds one.")
    ] = False

    def questions(self) -> Questions:
        """Return how rows become questions."""
        return replace(super().questions(), unanswered=self.unanswered)

    def verb(self, asked: Asked) -> Verb:
        """Label each passage of a row, with enough rows at once to keep all requests busy."""
        questions = self.questions()

        def flow(row: Mapping[str, object]) -> Flow[Row]:
            question = yield from questions(row)
            labels = passage_labels(question, (yield from asked.about(question)))
            own = row.get("passages")
            given = [
                ({"id": one.id} if one.id else {}) | {"title": one.title, "text": one.text}
                for one in question.passages
            ]
            if isinstance(own, list):
                given = own[: len(labels)]
            passages = [{**one, **label} for one, label in zip(given, labels, strict=True)]
            return {"passages": passages, "llm": asked.asker.name}

        lots = 1 if isinstance(asked.asker, AskLLM) and asked.asker.is_batched else 4
        lot = lots * self.asking.server.concurrency
        return Verb(flow, ("passages", "llm"), drops=FOR_READERS, lot=lot, weight=questions.weight)

    def counted(self, rows: Iterable[Row]) -> tuple[str, dict[str, object]]:
        """Count questions, and pairs by their labels."""
        return count_labels(rows)
