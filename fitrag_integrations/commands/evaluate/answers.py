"""`fitrag evaluate answers`: how many answers are right, of files or of methods that answer now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import models, outputs
from fitrag_integrations.commands.engine.batch import run_batch
from fitrag_integrations.commands.engine.options import (
    Hardware,
    ModelOptions,
    Overwrite,
    Quiet,
    ReaderName,
    Searching,
    Server,
    TemplateName,
    Tokenizer,
)
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.engine.rows import reason_of
from fitrag_integrations.commands.evaluate.contenders import (
    Contender,
    Contest,
    checked,
    named_methods,
    without_right,
)
from fitrag_integrations.commands.evaluate.options import (
    Format,
    InputRows,
    Outcome,
    Priced,
    settings_of,
)
from fitrag_integrations.commands.run.answering import Answers
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.files import only_writer
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.progress import Stopping, Terminated
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation import measures
from fitrag_integrations.evaluation.answers import normalize
from fitrag_integrations.evaluation.judging import LLM, each_apart, llm_judged
from fitrag_integrations.evaluation.rows import (
    AUTO,
    OURS,
    SETS,
    content_id,
    each_row,
    read_rows,
)
from fitrag_integrations.evaluation.table import Measured, Table, measured
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.prompts import EQUAL, instruction_named
from fitrag_integrations.text.tokens import counter_for
from fitrag_integrations.values.excerpt import grouped


@dataclass(frozen=True, slots=True)
class Answerer:
    """Methods that answer, and what they answer with."""

    method: Annotated[
        tuple[str, ...],
        Option(
            "Method that answers the questions, such as vanilla (without passages) or direct (from "
            "all of them); several compare with the first."
        ),
    ] = ()
    answers: Annotated[
        Path,
        Option(
            "Rows that the methods answer: .jsonl or .jsonl.gz. A stopped run continues there, "
            "with the same --limit, methods and options; a method may be added last."
        ),
    ] = Path("answers.jsonl")
    search: Searching = Searching(k=10)
    limit: Annotated[int | None, Option("Maximum number of questions.", min=1, default="all")] = (
        None
    )
    llm: Annotated[
        str | None,
        Option(
            "Language model that answers and writes the texts that methods need: a hub name, a "
            "folder, LangChain's PROVIDER:MODEL, or with --url the server's name for it.",
            default="the reader answers, and no method writes",
        ),
    ] = None
    reader: ReaderName = None
    tokenizer: Tokenizer = "approximate"
    template: TemplateName = EQUAL
    drop_right: Annotated[
        float, Option("Fraction of the right passages to remove at random.", min=0, max=1)
    ] = 0.0
    traces: Annotated[bool, Option("Add a trace of each answer to --answers.")] = False
    server: Server = Server()
    hardware: Hardware = Hardware()
    overwrite: Overwrite = False

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        refuse_if(
            self.llm is not None and self.reader is not None,
            "--reader",
            self.reader,
            "nothing, since --llm answers",
        )
        refuse_if(
            bool(self.drop_right) and self.search.index is not None,
            "--drop-right",
            self.drop_right,
            "0 with --index",
        )
        refuse_if(
            not self.answers.name.endswith((".jsonl", ".jsonl.gz")),
            "--answers",
            str(self.answers),
            "a .jsonl or .jsonl.gz file",
        )

    def answered(self, rows: Sequence[Row], source: Path, seed: int, *, quiet: bool) -> list[Row]:
        """Answer the questions with each method, and return what is written."""
        self.check()
        methods, instruction = named_methods(self.method), instruction_named(self.template)
        indexed = self.search.index is not None
        asked = each_row(rows[: self.limit], partial(checked, indexed=indexed), f"{source}, ")
        if self.drop_right:
            asked = without_right(asked, self.drop_right, seed)
        found, reader, generate = None, None, None
        if self.search.index is not None:
            encoder = ModelOptions(model=self.search.encoder)
            found = models.load_retriever(self.search.index, encoder, k=self.search.k)
        if self.llm is None:
            reader = models.load_reader(ModelOptions(model=self.reader))
        else:
            generate = models.load_writer(self.llm, self.server, self.hardware)
        own = outputs.settings_of(self) | ({"seed": seed} if self.drop_right else {})
        world = {name: own[name] for name in own if name not in ("method", "answers")}
        shots = self.server.examples()
        runs = [
            Contender(
                name,
                content_id({**world, "method": name}, 12),
                Answers(
                    Answering(method, reader=reader, template=instruction), found, generate, shots
                ),
            )
            for name, method in methods.items()
        ]
        if self.overwrite:
            self.answers.unlink(missing_ok=True)
        # a model of our own is warmed up first
        warm = self.llm is None or not (self.server.url or models.is_chat_model(self.llm))
        contest = Contest(runs, asked, counter_for(self.tokenizer), warm, self.traces)
        stopping = Stopping()
        self.answers.parent.mkdir(parents=True, exist_ok=True)
        self.answers.touch()
        with (
            stopping.heard(),
            only_writer(self.answers),
            progress_bar("evaluate", len(asked) * len(runs), shown=not quiet) as advance,
        ):
            done = run_batch(
                contest.answers,
                contest.rows(),
                str(self.answers),
                advance=advance,
                stopping=stopping,
            )
        if done.stopped:
            raise Terminated(f"after {done.rows} answers")
        return list(jsonl.read_jsonl(self.answers))


@dataclass(frozen=True)
class EvaluateAnswers:
    """Judge answers by inclusion, exact match and token F1, for every set.

    Reads question, answers (the gold ones), and prediction or answer. With --method, the questions
    are answered first, from their passages or from --index, by the reader or --llm, and written to
    --answers; tokens, calls and seconds are averages a question. Several methods, or two files,
    are compared question by question with the first.

    long_answers adds ROUGE, and rounds, which --traces writes, exact match and answer recall of
    each round. With --judge a language model also rates each answer (IK's LLMEval). Intervals are
    at 95 %: Wilson's for fractions, else the bootstrap's; p is McNemar's.
    """

    first: InputRows
    second: Annotated[Path | None, Argument("Rows of another system with the same questions.")] = (
        None
    )
    format: Format = "auto"
    gold: Annotated[Path | None, Option("Rows with the gold answers, if the input has none.")] = (
        None
    )
    common: Annotated[bool, Option("Compare only the questions that are in both.")] = False
    judge: Annotated[
        str | None,
        Option("Model that answers Yes or No: a folder, a hub name, or a name on the server."),
    ] = None
    apart: Annotated[bool, Option("Count each gold answer separately: STR-EM is SlimPLM's EM.")] = (
        False
    )
    answerer: Answerer = Answerer()
    price: Priced = Priced()
    outcome: Outcome = Outcome()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure the answers and write the table; exit with 1 if all of them are errors."""
        self.outcome.check()
        prices, names = self.price.prices(), [one for one in (self.first, self.second) if one]
        format = OURS if self.gold is not None and self.format == AUTO else self.format
        given = [read_rows(name, format) for name in names]
        if self.gold is not None:
            known = read_rows(self.gold)
            given = [with_gold(rows, known) for rows in given]
        if self.answerer.method:
            refuse_if(self.second is not None, "--method", self.answerer.method, "one file of rows")
            seed = self.outcome.draws.seed
            given = [self.answerer.answered(given[0], self.first, seed, quiet=self.quiet)]
        if self.apart:
            given = [list(map(each_apart, rows)) for rows in given]
        systems = [name.name.partition(".")[0] for name in names]
        if len(set(systems)) < len(systems):
            systems = [f"{i}: {name}" for i, name in enumerate(names, 1)]
        made: list[Measured] = []
        for name, rows, system in zip(names, given, systems, strict=True):
            scored = self._judged(rows)
            try:
                made += measured(
                    scored,
                    lambda row: measures.answers(row, prices) | row.get(LLM, {}),
                    system if len(names) > 1 else "",
                )
            except InputError as error:
                raise error.at(f"{name}, ") from error
        made, notes = _common(made) if self.common else (made, [])
        read = [row for rows in given for row in rows]
        settings = settings_of(names, read, methods=self.answerer.method, llm=self.answerer.llm)
        self.outcome.publish(
            Table(f"{len(made)} answers", made, self.outcome.draws, notes, settings=settings)
        )
        errors = [row.get("error") for row in read]
        if errors and all(errors):
            ((reason, count),) = Counter(map(reason_of, errors)).most_common(1)
            typer.echo(f"fitrag evaluate: every answer is an error; {count} x {reason}", err=True)
            raise typer.Exit(1)

    def _judged(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Add what the judge says of each answer, if there is one."""
        if self.judge is None:
            return rows
        server, hardware = self.answerer.server, self.answerer.hardware
        judge = server.generator(self.judge) or models.load_llm(self.judge, server, hardware)
        return [
            {**row, LLM: {LLM: value}}
            for row, value in zip(rows, llm_judged(rows, judge), strict=True)
        ]


def with_gold(rows: Sequence[Row], golden: Iterable[Row]) -> list[Row]:
    """Copy answers, choices and set from gold rows of the same normalized question.

    Args:
        rows: Rows without gold answers.
        golden: Rows with them.

    Raises:
        InputError: If a question is not among the gold rows.
    """
    known: dict[str, Row] = {}
    for row in golden:
        known.setdefault(normalize(check_text("question", row.get("question"))), row)
    brought = ("answers", "choices", "answer_groups", *SETS)

    def joined(row: Row) -> Row:
        question = check_text("question", row.get("question"))
        found = known.get(normalize(question), {})
        refuse_if(not found, "question", question, "one of --gold")
        return {**row, **{name: found[name] for name in brought if name in found}}

    return each_row(rows, joined)


def _common(rows: Sequence[Measured]) -> tuple[list[Measured], list[str]]:
    """Keep the questions that every system was asked, and say how many are left out."""
    systems = {row.system for row in rows}
    asked = grouped(rows, attrgetter("question"))
    kept = [row for row in rows if len(asked[row.question]) == len(systems)]
    refuse_if(not kept, "--common", 0, "questions that all systems answered")
    lost = f"{len(rows) - len(kept)} answers to questions that not every system was asked"
    return kept, [f"{lost} are left out"] * (len(kept) < len(rows))
