"""`fitrag evaluate methods`: several methods over the same questions, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import run_batch
from fitrag_integrations.commands.engine.options import (
    AsJson,
    Hardware,
    ModelOptions,
    Overwrite,
    Quiet,
    ReaderName,
    Searching,
    Tokenizer,
)
from fitrag_integrations.commands.engine.outputs import plain
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate.contenders import (
    Contender,
    Contest,
    named_methods,
    question_rows,
    without_right,
)
from fitrag_integrations.commands.evaluate.options import (
    EVERYTHING,
    Drawing,
    Ours,
    Outcome,
    Priced,
    refuse_errors,
    settings_of,
)
from fitrag_integrations.commands.evaluate.terminal import WIDE, show
from fitrag_integrations.commands.label.llms import Server, is_chat_model, load_writer
from fitrag_integrations.commands.run.answering import Answers, Generates
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import only_writer
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.progress import Stopping, Terminated
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.figure import NOTHING
from fitrag_integrations.evaluation.figures.methods import (
    System,
    method_plots,
    method_rows,
    methods_table,
)
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.result import Result, content_id
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.prompts import EQUAL, instruction_named
from fitrag_integrations.ports import Method
from fitrag_integrations.text.tokens import counter_for
from fitrag_integrations.types import Template

READ = "direct,fitrag,crag"
WRITTEN = f"{READ},iknow,slimplm,itrg,vanilla,cot,genread,refeed,selfeval,selfask,iterretgen"
"""What runs without and with a language model; skrknn wants a bank, flare, replug, selfrag and targ
a model of their own."""
COLUMNS = {
    "f1": "F1",
    "retrieval": "retrieved",
    "retriever_calls": "retriever",
    "llm_calls": "LLM calls",
    "tokens_in": "tokens in",
    "tokens_out": "out",
    "seconds": "seconds",
    "noted": "noted",
}


@dataclass(frozen=True)
class EvaluateMethods:
    """Answer the same questions with several methods and compare accuracy and cost.

    Reads question, answers and, without --index, passages[{title, text}]. An answer is right if it
    contains a gold answer. The interval is of the difference to the first method.

    Methods that write their own answer keep it. For the others the reader or --llm answers, all
    with one instruction; known questions use the labeling prompt. The column noted is the fraction
    of questions with a degraded step; --out has the notes. --drop-right imitates a worse retriever
    (CRAG, section 5.6).
    """

    questions: Annotated[Path, Argument("Rows with question and answers: .jsonl or .jsonl.gz.")]
    out: Annotated[
        Path, Option("Answers to write: .jsonl or .jsonl.gz. A stopped run continues there.")
    ]
    methods: Annotated[
        str | None,
        Option(
            "Names, separated by commas; the first is the baseline.",
            default=f"{READ}; with --llm all that need no model of their own",
        ),
    ] = None
    search: Searching = Searching(k=10)
    limit: Annotated[int | None, Option("Maximum number of questions.", min=1, default="all")] = (
        None
    )
    llm: Annotated[
        str | None,
        Option(
            "Language model that answers and writes the texts that methods need: a hub name, a "
            "folder, or LangChain's PROVIDER:MODEL.",
            default="the reader answers, and no method writes",
        ),
    ] = None
    reader: ReaderName = None
    tokenizer: Tokenizer = "approximate"
    template: Annotated[
        str,
        Option("Prompt: equal (one for all methods), a template's name, or own (each method's)."),
    ] = EQUAL
    drop_right: Annotated[
        float, Option("Fraction of the right passages to remove at random.", min=0, max=1)
    ] = 0.0
    price: Priced = Priced()
    shape: Ours = Ours()
    traces: Annotated[bool, Option("Add a trace of each answer to --out.")] = False
    result: Annotated[Path | None, Option(EVERYTHING, name="--result")] = None
    plot: Drawing = None
    draws: Draws = Draws()
    overwrite: Overwrite = False
    quiet: Quiet = False
    json: AsJson = False

    def run(self) -> None:
        """Answer, judge and compare."""
        outcome = Outcome(self.result, self.plot, self.draws, self.json)
        self.check(outcome)
        prices, methods = self.price.prices(), named_methods(self._named)
        instruction = instruction_named(self.template)
        indexed = self.search.index is not None
        asked = question_rows(self.questions, self.shape, self.limit, indexed=indexed)
        if self.drop_right:
            asked = without_right(asked, self.drop_right, self.draws.seed)
        runs = self._runs(methods, instruction)
        if self.overwrite:
            self.out.unlink(missing_ok=True)
        # a model of our own is warmed up first
        count = counter_for(self.tokenizer)
        warm = self.llm is None or not is_chat_model(self.llm)
        contest, stopping = Contest(runs, asked, count, warm, self.traces), Stopping()
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.touch()
        with (
            stopping.heard(),
            only_writer(self.out),
            progress_bar("evaluate", len(asked) * len(runs), shown=not self.quiet) as advance,
        ):
            rows, out = contest.rows(), str(self.out)
            done = run_batch(contest, rows, out, advance=advance, stopping=stopping)
        if done.stopped:
            raise Terminated(f"after {done.summary.rows} answers")
        written = list(jsonl.read_jsonl(self.out))
        lines = methods_table(written, self.draws, prices)
        used = {} if self.llm is not None else {"reader": self.reader}
        chosen = {
            **self._world(),
            "setups": {run.name: run.setup for run in runs},
            "methods": self._named,
            "prices": prices and prices.to_dict(),
        }
        result = Result(
            "methods",
            [line.to_dict() for line in lines],
            method_rows(written, prices),
            settings_of("methods", [self.questions], asked, outcome.draws, used, chosen),
            method_plots(lines),
        )
        summary = {
            "questions": len(asked),
            "seed": self.draws.seed,
            "methods": list(result.figures),
        }
        outcome.publish(result, lambda: _show(lines, len(asked)), summary=summary)
        refuse_errors([row.get("error") for row in written])

    def check(self, outcome: Outcome) -> None:
        """Raise `InputError` for options that do not go together."""
        both = self.llm is not None and self.reader is not None
        refuse_if(both, "--reader", self.reader, "nothing, since --llm answers")
        indexed = bool(self.drop_right) and self.search.index is not None
        refuse_if(indexed, "--drop-right", self.drop_right, "0 with --index")
        is_rows = self.out.name.endswith((".jsonl", ".jsonl.gz"))
        refuse_if(not is_rows, "--out", str(self.out), "a .jsonl or .jsonl.gz file")
        outcome.check("--result")

    @property
    def _named(self) -> str:
        return self.methods or (READ if self.llm is None else WRITTEN)

    def _world(self) -> Row:
        """Return the settings on which every method's answers depend, with hashes of the files."""
        search = self.search
        named = {"index": search.index, "encoder": search.encoder, "reader": self.reader}
        files = {name: None if each is None else plain(each) for name, each in named.items()}
        names = {"llm": plain(self.llm), "reader": files["reader"], "template": self.template}
        searched = {"k": search.k, "index": files["index"], "encoder": files["encoder"]}
        worse = {"drop_right": self.drop_right, "seed": self.draws.seed} if self.drop_right else {}
        return {**searched, **names, "tokenizer": self.tokenizer, **worse}

    def _runs(self, methods: dict[str, Method], instruction: Template | None) -> list[Contender]:
        """Load what answers, and put each method before it."""
        found, reader = None, None
        generate: Generates | None = None
        if self.search.index is not None:
            found = models.load_retriever(
                self.search.index, ModelOptions(model=self.search.encoder), k=self.search.k
            )
        if self.llm is None:
            reader = models.load_reader(ModelOptions(model=self.reader))
        else:
            generate = load_writer(self.llm, Server(), Hardware())
        return [
            Contender(
                name,
                content_id({**self._world(), "method": name}, 12),
                Answers(Answering(method, reader=reader, template=instruction), found, generate),
            )
            for name, method in methods.items()
        ]


def _show(lines: Sequence[System], questions: int) -> None:
    """Print the table, with what a thousand questions cost where prices are given."""
    title = f"{questions} questions; calls, tokens and seconds are averages per question"
    costs = {"cost": "a thousand cost"} if all("cost" in line.figures for line in lines) else {}
    heads = ("accuracy", "to the first", *COLUMNS.values(), "errors", *costs.values())
    rows = [
        [
            line.name,
            str(line.accuracy),
            str(line.accuracy.change or NOTHING),
            *(str(line.figures[name]) for name in COLUMNS),
            str(line.errors),
            *(str(line.figures[name]) for name in costs),
        ]
        for line in lines
    ]
    show(title, {"method": False, **dict.fromkeys(heads, True)}, rows, wide=WIDE + 20 * len(costs))
