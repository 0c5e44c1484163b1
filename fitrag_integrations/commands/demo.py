"""`fitrag demo`: a question about bundled documents, before and after FIT-RAG, on one screen."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import AsJson, ModelOptions
from fitrag_integrations.commands.engine.progress import chunked
from fitrag_integrations.commands.run.answering import (
    MARKS,
    PLAIN_MARKS,
    Answers,
    answer_fields,
    shown,
)
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.answering import Answering

DOCUMENTS = Path(str(resources.files("fitrag_integrations"))) / "embedded/handbook/documents"
BATCH = 4  # passages between two steps of the progress bar


@dataclass(frozen=True)
class DemoPlan:
    """Show on one screen what FIT-RAG does with a question about a made-up company.

    Retrieves ten passages of the bundled documents, keeps the sentences that answer the question,
    within few tokens, and reads the answer. Runs offline, with the models that ship in the package.
    """

    question: Annotated[str, Argument("Question about the documents.")] = (
        "How long do the snapshots of a removed client stay?"
    )
    max_tokens: Annotated[int, Option("Passage tokens in the prompt.", min=1)] = 30
    json: AsJson = False

    def run(self) -> None:
        """Answer the question and print what was retrieved, what was kept, and the answer."""
        from fitrag_integrations.retrieval import read_corpus

        index, corpus = models.new_index(ModelOptions()), list(read_corpus(DOCUMENTS))
        for some in chunked("indexing", corpus, BATCH, verb="demo"):
            index.add(some)
        answering = Answering(
            FitRag(max_tokens=self.max_tokens), reader=models.load_reader(ModelOptions())
        )
        retriever = index.as_retriever(DEFAULTS.k)
        traced = run(Answers(answering, retriever, None)({"question": self.question}))
        if self.json:
            typer.echo(json.dumps({"question": self.question, **answer_fields(traced)}))
            return
        answered, context = traced.value, traced.value.context
        found = next(step.answers[0] for step in traced.steps if step.port == "retrieve")
        marks = MARKS if sys.stdout.isatty() else PLAIN_MARKS
        titles = "; ".join(dict.fromkeys(one.title or one.id for one in found))
        lines = [
            f"Question: {self.question}",
            "",
            f"Before: {len(found)} passages, {context.details['tokens_in']:,} tokens, from",
            f"  {titles}",
            "",
            f"After: {context.details['tokens_out']:,} tokens",
            *(
                f"  {one.passage.title or one.passage.id}: {shown(one.text, answered.text, marks)}"
                for one in context.excerpts
            ),
            "",
            f"Answer: {answered.text or '(none)'}",
            "",
            "What it saves on your own files: fitrag try FOLDER",
        ]
        typer.echo("\n".join(lines))
