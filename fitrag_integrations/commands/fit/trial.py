"""`fitrag try`: what FIT-RAG saves on your own files, in a sentence and a page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.options import EncoderHardware, Server
from fitrag_integrations.commands.engine.outputs import plain
from fitrag_integrations.commands.engine.progress import (
    check_writable,
    chunked,
    echo_notes,
    progress_bar,
)
from fitrag_integrations.commands.fit.comparing import Trial, compare, proof, sentence
from fitrag_integrations.commands.fit.reading import read_given
from fitrag_integrations.commands.label.llms import Asking, load_asker
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.show import table as html_table
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, PortError, refuse_if
from fitrag_integrations.evaluation.compression import THERE
from fitrag_integrations.evaluation.plots import Plot
from fitrag_integrations.evaluation.table import Draws, Table, page
from fitrag_integrations.retrieval import FileNote
from fitrag_integrations.training.fitted.questions import (
    Asked,
    each_once,
    questions_from,
    questions_in,
    says_it_knows,
    with_answers,
    written_questions,
)
from fitrag_integrations.training.journal import AnswerCache
from fitrag_integrations.types import Passage

if TYPE_CHECKING:  # it loads torch
    from fitrag_integrations.training.fitted.oracle import Oracle

MADE = (
    "the questions were made from sentences of the corpus, which are easier to find than real ones"
)
WRITTEN = "the questions were written by the language model from the corpus"
READ = "questions without an answer got the one that the bundled reader finds in their passages"
ANSWERED = "questions without an answer got the one that {llm} gives with all passages"
BY_LLM = "an answer is kept where {llm} gives it from what is shown"
OVER = (
    "the figures of the summary are those of FitRag() by default over all questions; the verdict "
    "and the chart are over the {there} whose answer stands in the retrieved passages"
)
DRAWS = Draws()
BLOCK = 16  # passages or pairs of one call of a model: about a second on one core


@dataclass(frozen=True)
class OwnFiles:
    """Options of `fitrag try` and `fitrag fit`: your files, and how they are searched."""

    corpus: Annotated[
        Path,
        Argument(
            "Folder or file of text, Markdown, HTML, PDF, tables or rows; or rows of question, "
            "passages and maybe answers, as your own retriever returned them."
        ),
    ]
    questions: Annotated[
        Path | None,
        Argument(
            "Rows of question and answers (JSON Lines, JSON, YAML, CSV), or a text file with one "
            "question per line. By default, questions are written from the corpus."
        ),
    ] = None
    k: options.Retrieved = DEFAULTS.k
    server: Server = Server()
    price_in: options.PriceIn = None
    hardware: EncoderHardware = EncoderHardware()
    quiet: options.Quiet = False
    json: options.AsJson = False


@dataclass(frozen=True)
class TryPlan(OwnFiles):
    """Measure what FIT-RAG saves on your own files; print a sentence and write a page.

    Retrieves passages for each question with the bundled encoder, compresses them at many budgets,
    and compares how many tokens it takes to keep the answers with the retriever's first passages
    cut at the same budgets. Says so if there is nothing to gain.
    """

    out: Annotated[Path, Option("HTML page to write.")] = Path("fitrag-try.html")
    count: Annotated[int, Option("Maximum number of questions.", name="--limit", min=1)] = 50
    llm: Annotated[
        str | None,
        Option(
            "Language model that answers from the kept text: a hub name, a folder, a LangChain "
            "PROVIDER:MODEL, or with --url the model's name on the server.",
            default="none: check whether the kept text contains the answer",
        ),
    ] = None

    def run(self) -> None:
        """Run the trial, write the page and print the verdict."""
        check_writable("--out", self.out)
        if self.out.exists():
            typer.echo(f"fitrag try: {self.out} is there and will be replaced", err=True)
        brought = None if self.questions is None else questions_in(self.questions, self.count)
        notes: list[FileNote] = []
        given = read_given(self.corpus, self.count, notes)
        if given.found is not None:
            refuse_if(
                brought is not None,
                "QUESTIONS",
                str(self.questions),
                "nothing, where the rows bring their questions",
            )
            brought = list(given.asked)
        passages = given.passages
        with self._asking() as oracle:
            asked = self._questions(passages, brought, oracle)
            if oracle is not None:
                oracle.reach([one.question for one in asked])
            found = self._found(passages, asked) if given.found is None else given.found
            asked = [one for one in asked if found[one.question]]
            unsure = ""  # why the questions, or their answers, are no real ones
            if brought is None:
                unsure = MADE if oracle is None else WRITTEN
            elif any(not one.answers for one in asked):
                unsure = READ if oracle is None else ANSWERED.format(llm=self.llm)
            asked = self._answered(asked, found, oracle)
            scorer = models.load_scorer(self.hardware.of(None))  # that of `FitRag()`
            bar = partial(progress_bar, shown=not self.quiet, verb="try")
            trial = compare(asked, found, scorer, oracle, draws=DRAWS, bar=bar)
            skipped = None
            if oracle is not None:
                skipped = sum(says_it_knows([each.question for each in asked], oracle)) / len(asked)
        figures = proof(trial, unsure=unsure, skipped=skipped, price=self.price_in)
        said = sentence(figures, unsure)
        by = [BY_LLM.format(llm=self.llm)] if self.llm is not None else []
        remarks = [*by, *filter(None, [unsure]), *(f"left out: {each}" for each in trial.failed)]
        plot = None if trial.savings is None else trial.savings.plot(trial.savings.at())
        self._write_page(said, trial, plot, remarks, notes)
        if self.json:
            rest = {
                "curves": {} if plot is None else plot.series,
                "passages": len(passages),
                "page": str(self.out),
                "notes": remarks,
                "left out": [note.to_dict() for note in notes],
            }
            typer.echo(json.dumps({**figures, **rest}))
            return
        typer.echo(said)
        for note in remarks:
            if note not in said:
                typer.echo(f"({note})")
        typer.echo(f"{len(passages)} passages; the curve and every question: {self.out}")
        if not self.quiet:
            echo_notes("try", notes, str(self.out))

    @contextmanager
    def _asking(self) -> Iterator[Oracle | None]:
        """Load the language model, whose answers are kept beside the page; None without one."""
        if self.llm is None:
            yield None
            return
        from fitrag_integrations.training.fitted.oracle import Oracle

        asker = load_asker(Asking(self.llm, self.server), self.hardware)
        beside = self.out.with_name(f"{self.out.name}.asked")
        is_folder = self.server.url is None and os.path.isdir(self.llm)
        plan = {"llm": plain(self.llm) if is_folder else asker.name}
        with closing(AnswerCache(beside, plan, max_failures=100)) as cache:
            yield Oracle(asker, cache)

    def _questions(
        self, passages: Sequence[Passage], given: list[Asked] | None, oracle: Oracle | None
    ) -> list[Asked]:
        asked = given
        if asked is None and oracle is not None:
            asked = written_questions(passages, self.count, oracle)
        elif asked is None:
            asked = questions_from(passages, self.count)
        if not asked and oracle is not None and oracle.cache.last is not None:
            raise PortError(f"the language model does not answer: {oracle.cache.last}")
        if not asked:
            raise InputError.of(
                "questions",
                given=None,
                allowed="questions of yours: no sentence of the corpus makes one",
            )
        return each_once(asked)

    def _found(
        self, passages: Sequence[Passage], asked: Sequence[Asked]
    ) -> dict[str, Sequence[Passage]]:
        """Retrieve the passages of every question."""
        index, shown = models.new_index(self.hardware.of(None)), not self.quiet
        for some in chunked("indexing passages", passages, BLOCK, shown=shown, verb="try"):
            index.add(some)
        texts = [one.question for one in asked]
        return dict(zip(texts, index.search(texts, min(self.k, len(passages))), strict=True))

    def _answered(
        self,
        asked: Sequence[Asked],
        found: Mapping[str, Sequence[Passage]],
        oracle: Oracle | None,
    ) -> list[Asked]:
        """Find an answer in the whole passages where none is known; leave out what has none."""
        if all(one.answers for one in asked):
            return list(asked)
        if oracle is not None:
            return with_answers(asked, partial(oracle.answers_from, found))
        reader = models.load_reader(self.hardware.of(None))

        def read(questions: Sequence[str]) -> list[str]:
            texts, shown = [], not self.quiet
            for (question,) in chunked("reading answers", questions, 1, shown=shown, verb="try"):
                spans = reader.read([(question, each) for each in found[question]])
                texts.append(max(spans, key=lambda span: span.score).text)
            return texts

        return with_answers(asked, read)

    def _write_page(
        self,
        lead: str,
        trial: Trial,
        plot: Plot | None,
        remarks: Sequence[str],
        notes: Sequence[FileNote],
    ) -> None:
        there = sum(one.values[THERE] > 0 for one in trial.judged)
        left = [[each.file, "" if each.line is None else each.line, each.reason] for each in notes]
        more = f"<h2>Left out, or not read as usual</h2>{html_table(('file', 'line', 'why'), left)}"
        tables, told = [], [*remarks, OVER.format(there=there)]
        if trial.judged:
            tables = [Table(f"{len(trial.judged)} questions", trial.judged, DRAWS, told, plot)]
        write_whole(self.out, page(tables, "fitrag try", lead, more if left else ""))
