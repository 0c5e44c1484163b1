"""Answer the same questions with several methods, for `fitrag evaluate answers --method`.

Answers are written line by line, so that a stopped run continues.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fitrag_integrations.commands.engine.batch import Answered as Lines
from fitrag_integrations.commands.engine.batch import Answers as Batches
from fitrag_integrations.commands.engine.rows import Line, described, passages_of, question_of
from fitrag_integrations.commands.run.answering import DROPPED, Answers
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.answers import contains_answer, token_f1
from fitrag_integrations.evaluation.cost import RETRIEVING, spent
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.table import SECONDS
from fitrag_integrations.flow import Traced, run_many
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.methods.compose.composing import method_from
from fitrag_integrations.ports import Method
from fitrag_integrations.text.tokens import TokenCounter
from fitrag_integrations.types import Excerpt

CHUNK = 32  # questions that go through a method in lock step
FAILED: Row = {"answer": "", "correct": False, "f1": 0.0, "notes": []}


@dataclass(frozen=True)
class Contender:
    """Method with its name, its settings and its answers."""

    name: str
    setup: str
    answers: Answers


@dataclass(frozen=True)
class Contest:
    """Engine of a batch whose rows are the questions of one method after the other.

    With `warm` a method answers its first question once before the clock starts, so that loading
    a model is no method's time. `explained` adds the fields of `trace_fields`.
    """

    runs: Sequence[Contender]
    asked: Sequence[Row]
    count: TokenCounter
    warm: bool
    explained: bool = False

    def rows(self) -> Iterator[Line]:
        """Yield a row for each method and question."""
        for run in self.runs:
            for at, row in enumerate(self.asked):
                own = {"method": run.name, "setup": run.setup, "row": at}
                yield Line({**own, "question": row["question"], "answers": row["answers"]})

    def answers(self, rows: Iterator[Line], done: int) -> Batches:
        """Answer the rows of each method in lock step, a chunk in each call."""
        named = {run.name: run.answers for run in self.runs}
        for name, group in itertools.groupby(rows, key=lambda row: row.given["method"]):
            waiting = list(group)
            if self.warm:
                run_many([named[name](self.asked[waiting[0].given["row"]])])
            for chunk in chunks(waiting, CHUNK):
                yield partial(self._answered, named[name], chunk)

    def _answered(self, answers: Answers, chunk: Sequence[Line]) -> Lines:
        began, lines = time.perf_counter(), []
        traces = run_many([answers(self.asked[row.given["row"]]) for row in chunk])
        timed = {SECONDS: round((time.perf_counter() - began) / len(chunk), 6)}
        for row, traced in zip(chunk, traces, strict=True):
            trace = trace_fields(traced) if self.explained else {}
            judged = outcome(traced, row.given["answers"], self.count)
            lines.append(jsonl.dump({**row.given, **judged, **timed, **trace}))
        return Lines(lines, [])


def named_methods(given: Sequence[str]) -> dict[str, Method]:
    """Build the methods of a list of names, which commas may part too."""
    names = [name.strip() for each in given for name in each.split(",") if name.strip()]
    for name in names:
        refuse_if(names.count(name) > 1, "--method", name, "each name once")
    refuse_if(not names, "--method", list(given), "at least one method")
    return {name: method_from(name) for name in names}


def checked(row: Row, *, indexed: bool) -> Row:
    """Raise `InputError` for a row without a question, gold answers, or passages and an index."""
    question_of(row)
    gold(row)
    if "passages" in row or not indexed:
        passages_of(row)
    return row


def without_right(rows: Sequence[Row], share: float, seed: int) -> list[Row]:
    """Remove a fraction of the passages with an answer at random (CRAG, section 5.6)."""
    chance = random.Random(seed)
    made: list[Row] = []
    for row in rows:
        passages = passages_of(row)
        right = [contains_answer(f"{one.title} {one.text}", row["answers"]) for one in passages]
        kept = [
            given
            for given, holds in zip(row["passages"], right, strict=True)
            if not holds or chance.random() >= share
        ]
        made.append({**row, "passages": kept, DROPPED: len(passages) - len(kept)})
    return made


def outcome(traced: Traced[Answered], answers: Sequence[str], count: TokenCounter) -> Row:
    """Judge an answer and count its costs; an error is a wrong answer with a reason."""
    judged = FAILED
    if traced.error is None:
        text, notes = traced.value.text, list(traced.value.context.notes)
        right, f1 = contains_answer(text, answers), token_f1(text, answers)
        judged = {"answer": text, "correct": right, "f1": f1, "notes": notes}
    retrieved = any(step.port in RETRIEVING for step in traced.steps)
    costs = {"retrieved": retrieved, **spent(traced.steps, count).to_dict()}
    error = {} if traced.error is None else {"error": described(traced.error)}
    return {**judged, **costs, **error}


def trace_fields(traced: Traced[Answered]) -> Row:
    """Return `explained`, the trace in lines, and the decisions and excerpts of the method.

    `decision` and `action` are there where the method has one, `excerpts` where it kept any, each
    with its passage's id, title and text, and `rounds` where it wrote in rounds, each with its
    document and answer. A question that ended in an error has its trace alone.
    """
    explained = {"explained": traced.explain()}
    if traced.error is not None:
        return explained
    context = traced.value.context
    found = {
        "decision": context.decision and context.decision.to_dict(),
        "action": context.action and context.action.value,
        "excerpts": list(map(_excerpt, context.excerpts)),
        "rounds": [
            {"document": each["document"], "answer": each["answer"]}
            for each in context.details.get("rounds", ())
            if "document" in each
        ],
    }
    return {**explained, **{name: value for name, value in found.items() if value}}


def _excerpt(excerpt: Excerpt) -> Row:
    passage = excerpt.passage
    return {
        "passage": {"id": passage.id, "title": passage.title, "text": passage.text},
        "start": excerpt.start,
        "end": excerpt.end,
        "score": excerpt.score,
    }
