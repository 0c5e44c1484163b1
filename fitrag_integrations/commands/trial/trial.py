"""`fitrag try`: one sentence and a page about somebody's own files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import CHUNK, chunks
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.label.asked import Server
from fitrag_integrations.commands.label.options import Asking, load_asker
from fitrag_integrations.commands.trial.proof import (
    Proof,
    proof_of,
    sentence,
    with_answers,
    with_plain,
)
from fitrag_integrations.commands.trial.reading import passages_in
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.compress import (
    Compressed,
    compress_figures,
    compress_plot,
    compress_rows,
    kept_curves,
)
from fitrag_integrations.evaluation.figures.summaries import Draws, Question
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.flow import Traced, run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.answer.answering import Answered, Answering
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.questions import (
    Asked,
    questions_from,
    questions_in,
    says_it_knows,
    written_questions,
)
from fitrag_integrations.training.labels.budget import Account
from fitrag_integrations.training.labels.journal import AnswerJournal
from fitrag_integrations.types import Passage

if TYPE_CHECKING:  # it loads torch
    from fitrag_integrations.training.fitted.oracle import Oracle

MADE = "the questions were made of sentences of the corpus, which are easier to find than real ones"
READ = "questions without an answer got the one that the reader finds in the whole passages"
BY_LLM = "an answer is there, and kept, where {llm} gives it from what is shown"
DRAWS = Draws()


@dataclass(frozen=True)
class TryPlan:
    """See what FIT-RAG would save on your own files, in one sentence and a page.

    Retrieves passages for each question with the embedded encoder, reranks and reduces them, and
    tells how many tokens that saves, how many answers it keeps, and whether cutting the passages
    short would do as well. Says so where there is nothing to gain.
    """

    corpus: Annotated[
        Path, Argument("Folder or file of text, Markdown, HTML, PDF, or JSON Lines with text.")
    ]
    questions: Annotated[
        Path | None,
        Argument(
            "JSON Lines of question and answers, or a text with a question a line; "
            "without, they are made of the corpus."
        ),
    ] = None
    out: Annotated[Path, Option("Where the page goes.")] = Path("fitrag-try.html")
    count: Annotated[int, Option("Questions to ask at most.", min=1)] = 50
    k: Annotated[int, Option("Passages to retrieve for a question.", name="--k", min=1)] = 10
    llm: Annotated[
        str | None,
        Option(
            "Who answers from what is kept: a hub name, a folder, a LangChain PROVIDER:MODEL, or "
            "with --url the server's name for the model.",
            default="nobody; what stands in it is looked at",
        ),
    ] = None
    server: Server = Server()
    price_in: Annotated[
        float | None, Option("Price of a million tokens given to a language model.", min=0)
    ] = None
    hardware: EncoderHardware = EncoderHardware()
    quiet: options.Quiet = False
    json: options.AsJson = False

    def run(self) -> None:
        """Try it and tell."""
        passages = passages_in(self.corpus)
        with self._asking() as oracle:
            if self.questions is not None:
                asked = questions_in(self.questions, self.count)
            elif oracle is not None:
                asked = written_questions(passages, self.count, oracle)
            else:
                asked = questions_from(passages, self.count)
            rows = self._rows(passages, asked)
            judged = with_plain(compress_rows(rows), rows)
            if oracle is not None:
                judged = with_answers(judged, rows, oracle)
            skipped = self._skipped(asked) if oracle is None else _known(asked, oracle)
        proof = proof_of(judged, DRAWS, skipped, self.price_in)
        self._write_page(proof, judged, rows, self._notes(asked))
        if self.json:
            typer.echo(json.dumps({**asdict(proof), "worth it": proof.is_worth_it}))
            return
        typer.echo(sentence(proof))
        for note in self._notes(asked):
            typer.echo(f"({note})")
        typer.echo(f"{len(passages)} passages; every question and its figures: {self.out}")

    @contextmanager
    def _asking(self) -> Iterator[Oracle | None]:
        """Have the language model asked, whose answers are kept beside the page; None for none."""
        if self.llm is None:
            yield None
            return
        from fitrag_integrations.training.fitted.oracle import Oracle

        asker = load_asker(Asking(self.llm, self.server), self.hardware)
        beside = self.out.with_name(f"{self.out.name}.asked")
        journal = AnswerJournal(beside, {"llm": asker.name})
        try:
            account = Account(approximate_tokens, max_failures=100, tokens=journal.tokens)
            yield Oracle(asker, journal, account)
        finally:
            journal.close()

    def _rows(self, passages: Sequence[Passage], asked: Sequence[Asked]) -> list[Compressed]:
        plain = self.hardware.of(None)
        index = models.new_index(plain)
        scorer, reader = models.load_scorer(plain), models.load_reader(plain)
        with progress_bar("index", len(passages), shown=not self.quiet) as advance:
            for chunk in chunks(passages, CHUNK):
                index.add(chunk)
                advance(len(chunk))
        answering = Answering(FitRag(scorer), reader=reader)
        ports = Ports(retrieve=index.as_retriever(min(self.k, len(passages))))
        rows = []
        with progress_bar("try", len(asked), shown=not self.quiet) as advance:
            for some in chunks(asked, CHUNK):
                traced = run_many([answering(each.question, ports) for each in some])
                rows += [_row(each, one) for each, one in zip(some, traced, strict=True)]
                advance(len(some))
        return [row for row in rows if row is not None]

    def _skipped(self, asked: Sequence[Asked]) -> float | None:
        """Give the share of questions that the embedded gate would not retrieve for."""
        gate: Any = models.load_gate(replace(self.hardware.of(None), backend=None))
        known = _p_known(gate, [each.question for each in asked])
        skipped: int = sum(p > gate.threshold for p in known)
        return skipped / len(asked)

    def _notes(self, asked: Sequence[Asked]) -> list[str]:
        if self.llm is not None:
            return [BY_LLM.format(llm=self.llm)]
        notes = [MADE] if self.questions is None else []
        return notes + ([READ] if any(not each.answers for each in asked) else [])

    def _write_page(
        self,
        proof: Proof,
        judged: Sequence[Question],
        rows: Sequence[Compressed],
        notes: Sequence[str],
    ) -> None:
        from fitrag_integrations.evaluation.report import html_report

        source = Source([str(self.corpus)], [{"question": row.question} for row in rows])
        settings = settings_of(
            "compress",
            source,
            seed=DRAWS.seed,
            resamples=DRAWS.resamples,
            models={"scorer": None, "reader": None},
            options={"k": self.k},
        )
        result = Result(
            "compress",
            [figure.to_dict() for figure in compress_figures(judged, DRAWS)],
            tuple(
                {**each, "excerpts": [one.to_dict() for one in row.excerpts]}
                for each, row in zip(judged, rows, strict=True)
            ),
            settings,
            (compress_plot(kept_curves(rows)),),
            tuple(notes),
        )
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.write_text(
            html_report([result], title="fitrag try", lead=sentence(proof)), encoding="utf-8"
        )


def _p_known(gate: Any, questions: list[str]) -> list[float]:
    """Ask a gate; for a question that is too long for it there is retrieval, as in a chain."""
    try:
        drafts = [draft.text for draft in gate.drafter.draft(questions)]
        return list(gate.p_known(questions, drafts))
    except InputError:
        if len(questions) == 1:
            return [0.0]
        return [p for question in questions for p in _p_known(gate, [question])]


def _known(asked: Sequence[Asked], oracle: Oracle) -> float:
    """Give the share of questions that the language model says it can answer by itself."""
    return sum(says_it_knows([each.question for each in asked], oracle)) / len(asked)


def _row(asked: Asked, traced: Traced[Answered]) -> Compressed | None:
    """Give what was retrieved and what was kept; None where there is no answer to look for."""
    if traced.error is not None:
        typer.echo(f"fitrag try: left out: {asked.question}: {traced.error}", err=True)
        return None
    found = [
        passage
        for step in traced.steps
        if step.port == "retrieve"
        for passages in step.answers
        for passage in passages
    ]
    answers = asked.answers or ((traced.value.text,) if traced.value.text else ())
    if not answers or not found:
        return None
    return Compressed(asked.question, answers, tuple(found), traced.value.context.excerpts)
