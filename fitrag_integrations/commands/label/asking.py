"""What the verbs share that ask about passages: `fitrag label bilabel` and `label eligibility`.

Rows become questions with passages, whoever reads them is asked, and the rows go out as those of
any verb. Every answer is in a file beside the output before its row is, so none is asked twice.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from fitrag_integrations.commands.engine.batch import Done, Verb, check_names, here, run_batch
from fitrag_integrations.commands.engine.options import Depth, EncoderHardware, RunSettings
from fitrag_integrations.commands.engine.progress import going, leave, progress_bar
from fitrag_integrations.commands.engine.rows import Line, passages_of, question_of, read_rows
from fitrag_integrations.commands.label.llms import (
    Asking,
    Budget,
    Candidates,
    RowsOut,
    load_asker,
)
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.progress import Stopping, Terminated
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.answers import check_answers
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.ports import Pair
from fitrag_integrations.training.asking_llm import Asker
from fitrag_integrations.training.collecting import Failed, Outcome, Question
from fitrag_integrations.training.journal import AnswerCache
from fitrag_integrations.types import Passage

FOR_READERS = ("passage", "negatives", "answer_start")  # of a reading row; not written out


@dataclass(frozen=True)
class AskingPlan(ABC):
    """Label what rows ask about: the options, and the run over them.

    A verb says its `name`, who is asked (`asker`), what it does with a row (`verb`), and how it
    counts an output (`counted`).
    """

    name: ClassVar[str]
    rows: Annotated[list[Path], Argument("Rows of question and answers: .jsonl or .jsonl.gz.")]
    out: RowsOut
    candidates: Candidates = Candidates()
    depth: Depth = 50
    asking: Asking = Asking()
    patterns: Annotated[bool, Option("Answers are regular expressions (CuratedTREC).")] = False
    limit: Annotated[
        int,
        Option("Maximum number of questions to label; 0: all.", min=0),
    ] = 0
    budget: Budget = Budget()
    seed: Annotated[int | None, Option("Shuffle the questions.", default="their order")] = None
    hardware: EncoderHardware = EncoderHardware()
    how: RunSettings = RunSettings()  # one process writes the answers

    def questions(self) -> Questions:
        """Return how rows become questions."""
        return Questions(self.candidates.port(self.hardware, self.depth), self.depth, self.patterns)

    @abstractmethod
    def verb(self, asked: Asked) -> Verb:
        """Return what is asked about a row and written of it."""

    @abstractmethod
    def counted(self, rows: Iterable[Row]) -> tuple[str, dict[str, object]]:
        """Count the rows of an output, as text and as plain values."""

    def run(self) -> None:
        """Label all rows, or those the budget allows, and report the counts."""
        refuse_if(
            self.out == jsonl.STREAM, "--out", self.out, "a file, which a stopped run can go on in"
        )
        for path in self.rows:
            check_names(str(path), self.out)
        lines = chain.from_iterable(jsonl.read_lines(str(path)) for path in self.rows)
        given, target = list(read_rows(lines)), Path(self.out)
        if self.seed is not None:
            random.Random(self.seed).shuffle(given)
        given = given[: self.limit or None]
        run = going(self.name, self, self.out, anew=self.how.overwrite)
        with run as stopping, closing(self._cache(target, stopping)) as cache:
            asker = load_asker(self.asking, self.hardware)
            verb, shown = self.verb(Asked(asker, cache)), not self.how.quiet
            stopping.says = told = lambda: f" and {len(cache)} answers"
            with progress_bar("asking", len(given), shown=shown, verb=self.name, also=told) as bar:
                done = run_batch(
                    partial(here, verb), given, self.out, advance=bar, stopping=stopping
                )
        self._summarize(cache, done)
        if cache.stopped and not self.how.keep_going:
            raise typer.Exit(1)
        leave(replace(done, stopped=done.stopped and not cache.stopped), self.how)

    def _cache(self, target: Path, stopping: Stopping) -> AnswerCache:
        """Open the answers beside an output; raises `InputError` for an output that has none."""
        path = target.with_name(f"{target.name}.asked")
        if self.how.overwrite:
            path.unlink(missing_ok=True)
        has_rows = target.exists() and target.stat().st_size > 0
        refuse_if(
            has_rows and not path.exists(),
            "output",
            str(target),
            f"an output with {path.name} beside it, another one, or --overwrite",
        )
        return AnswerCache(
            path,
            {"llm": self.asking.llm, "max-new-tokens": self.asking.max_new_tokens},
            replan=not has_rows,
            longest=self.asking.max_new_tokens,
            is_ending=lambda: stopping.asked,
            **asdict(self.budget),
        )

    def _summarize(self, cache: AnswerCache, done: Done) -> None:
        text, counts = self.counted(row.given for row in read_rows(jsonl.read_lines(self.out)))
        if not self.how.quiet:
            typer.echo(text, err=True)
            typer.echo(f"{cache}; {done.errors} error rows", err=True)
        if self.how.json:
            cost = {"asked": cache.asked, "tokens": cache.tokens, "cost": cache.cost}
            summary = {"output": self.out, **counts, **cost, "stopped": cache.stopped or None}
            typer.echo(json.dumps(summary))
        if why := cache.stopped or ("asked to stop" if done.stopped else ""):
            typer.echo(
                f"fitrag {self.name}: stopped: {why}; {done.rows} rows and {len(cache)} answers "
                "are kept, and the same command goes on after them",
                err=True,
            )


@dataclass(frozen=True)
class Questions:
    """Make questions of rows. `find` searches where a row brings no passages of its own.

    `depth` is the most passages a question gets. Answers are regular expressions with `patterns`.
    With `unanswered` a row may have none, if it has a `passage` that is known to hold it.
    """

    find: Port[str, Sequence[Passage]] | None
    depth: int = 50
    patterns: bool = False
    unanswered: bool = False

    def __call__(self, row: Mapping[str, object]) -> Flow[Question]:
        """Return the flow that ends in a row's question; raises `InputError` for what is wrong."""
        own = self.find is None or "passages" in row
        passages: Sequence[Passage] = passages_of(row)[: self.depth] if own else ()
        passage, answers = row.get("passage"), tuple[str, ...]()
        held = passage.get("text") if isinstance(passage, dict) else None
        gold = held if isinstance(held, str) else None
        if row.get("answers") or gold is None or not self.unanswered:
            answers = check_answers(row.get("answers"), patterns=self.patterns)
        text = question_of(row)
        if self.find is not None and not passages:
            (passages,) = yield from self.find.ask([text])
        return Question(text, answers, tuple(passages), self.patterns, gold)

    def weight(self, row: Line) -> int:
        """Count the pairs of a row."""
        own = row.given.get("passages")
        return min(self.depth, len(own)) if isinstance(own, list) else self.depth


class Asked:
    """Labels of pairs. A run that may not ask more ends with the first row left unfinished."""

    def __init__(self, asker: Asker, cache: AnswerCache) -> None:
        self.asker, self._cache = asker, cache
        self._port: Port[Pair, Outcome | None] = Port.of("answer", self._answers)

    def about(self, question: Question) -> Flow[list[Outcome | None]]:
        """Label each passage of a question; without gold answers nothing is asked."""
        if not question.answers:
            return [None] * len(question.passages)
        pairs = [(question.text, passage) for passage in question.passages]
        outcomes = yield from self._port.ask(pairs)
        self.check(outcomes)
        return outcomes

    def check(self, outcomes: Sequence[Outcome | None]) -> None:
        """End the run before a row that is not settled; what failed as it ended is asked anew."""
        failed = any(isinstance(outcome, Failed) for outcome in outcomes)
        if None in outcomes or (failed and self._cache.stopped):
            raise Terminated

    def _answers(self, pairs: Sequence[Pair]) -> list[Outcome | None]:
        prompts = [self.asker.prompt(*pair) for pair in pairs]
        outcomes = self._cache(dict(zip(prompts, pairs, strict=True)), self.asker.send)
        return [outcomes.get(prompt) for prompt in prompts]
