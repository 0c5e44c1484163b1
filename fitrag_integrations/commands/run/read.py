"""`fitrag read`: the answer as a span of one of the passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Files, ModelOptions, RunOptions, Searching
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.engine.searching import searched
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Flow
from fitrag_integrations.ports import AnswerLike, Reader, port_of

ADDS = ("answer", "passage", "start", "end", "score")
EMPTY = {"answer": "", "passage": None, "start": None, "end": None, "score": None}


@dataclass(frozen=True)
class ReadPlan:
    """Read the answer to each row out of its passages.

    Reads question and, without --index, passages[{title, text}]; adds answer, passage (its place
    in the list), start, end (characters of its text) and score. Without an answer it is empty and
    the places are null.
    """

    files: Files
    abstain: Annotated[bool, Option("Return no answer below the reader's threshold.")] = False
    search: Searching = Searching()
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Read them."""
        run_plan("read", self)

    def verb(self) -> Verb[Any]:
        """Load the reader."""
        verb = read_verb(models.load_reader(self.model), abstain=self.abstain)
        return searched(verb, self.search)


def read_verb(reader: Reader, *, abstain: bool = False) -> Verb[Row]:
    """Read all passages of a row in one ask and keep the best answer, the first of equals."""
    port = port_of("read", reader, "read")
    below = getattr(reader, "abstain_below", None) if abstain else None

    def flow(row: Row) -> Flow[Row]:
        question, passages = question_of(row), passages_of(row)
        answers: list[AnswerLike] = yield from port.ask([(question, p) for p in passages])
        return best_answer(answers, below)

    return Verb(flow, lambda traced: traced.value, ADDS, EMPTY)


def best_answer(answers: Sequence[AnswerLike], below: float | None) -> Row:
    """Choose the best-scored answer, the first of equals; under `below` there is none."""
    at = max(range(len(answers)), key=lambda i: (bool(answers[i].text), answers[i].score))
    best = answers[at]
    if not best.text or (below is not None and best.score < below):
        return {"answer": "", "passage": None, "start": None, "end": None, "score": best.score}
    place = {"passage": at, "start": best.start, "end": best.end}
    return {"answer": best.text, **place, "score": best.score}
