"""`fitrag answer`: a whole method, by default FIT-RAG's Algorithm 1, and the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import (
    Files,
    ModelOptions,
    RunOptions,
    Searching,
    Server,
    TemplateName,
)
from fitrag_integrations.commands.engine.progress import RowsPlan
from fitrag_integrations.commands.run.answering import ADDS, Answers, answer_fields, show_answer
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.compose.composing import NAMES, method_from
from fitrag_integrations.methods.compose.fitted import INDEX, Fitted, FittedTemplate
from fitrag_integrations.methods.prompts import OWN, instruction_named
from fitrag_integrations.methods.settings import EMBEDDED
from fitrag_integrations.text.tokens import counter_for


@dataclass(frozen=True)
class AnswerPlan(RowsPlan):
    """Answer questions from passages: rerank, reduce, prompt and read or generate.

    Reads question and, without --index, passages[{title, text}]; adds context, prompt, answer
    and trace. Given a question instead of files, prints its answer and how it was found.

    With --method, options such as --top-n set the method's fields, and --device, --dtype and
    --batch-tokens apply to the reader. A method that writes texts needs --llm. Methods with models
    of your own are composed in Python.
    """

    name: ClassVar = "answer"
    source: Annotated[
        str,
        Argument("A question, or a file of rows.", metavar="QUESTION_OR_INPUT"),
    ]
    target: Annotated[
        str | None, Argument("Output rows; none for a question.", metavar="OUTPUT")
    ] = None
    method: Annotated[
        str | None,
        Option(
            "Method, e.g. crag, direct (all passages) or, with --llm, vanilla (none).",
            default="fitrag",
        ),
    ] = None
    fitted: Annotated[
        Path | None, Option("Folder of `fitrag fit`, which sets method, gate, prompt and index.")
    ] = None
    search: Searching = Searching()
    web: Annotated[
        str | None,
        Option(
            "What crag searches for the web: the address of a SearXNG server, an index of `fitrag "
            "index`, or rows of title and text.",
            metavar="PLACE",
            default="no search",
        ),
    ] = None
    top_n: Annotated[
        int | None, Option("Passages kept after reranking.", min=1, default=f"{DEFAULTS.top_n}")
    ] = None
    max_tokens: options.MaxTokens = None
    window: options.CutWindow = None
    weight: Annotated[
        float | None,
        Option(
            "Weight of llm_prefer; 0: has_answer alone, 1: llm_prefer alone.",
            min=0,
            max=1,
            default=f"{DEFAULTS.weight:g}",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        Option("Token counter: approximate, or a tiktoken encoding.", default=DEFAULTS.tokenizer),
    ] = None
    explain: Annotated[
        bool,
        Option("Show why each passage and sentence was kept or dropped, in `selection` of rows."),
    ] = False
    llm: Annotated[
        str | None,
        Option(
            "Language model that answers and writes the texts that a method needs: a LangChain "
            "PROVIDER:MODEL, a hub name or a folder, or with --url the model's name on the server.",
            metavar="NAME",
            default="the extractive reader",
        ),
    ] = None
    template: TemplateName = OWN
    server: Server = Server()
    reader: options.ReaderName = None
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Answer the questions."""
        self.check()
        if self.target is None:
            traced = run(self.answers()({"question": self.source}))
            if self.how.json:
                own = {"question": traced.value.context.question}
                typer.echo(json.dumps({**own, **answer_fields(traced, explain=self.explain)}))
            else:
                show_answer(traced, explain=self.explain)
            return
        super().run()

    @property
    def files(self) -> Files:
        """Return what is read and written."""
        return Files(self.source, self.target or jsonl.STREAM)

    def verb(self) -> Verb:
        """Load the method and what it asks."""
        return Verb(self.answers(), ADDS, fields=partial(answer_fields, explain=self.explain))

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        llm, method, alone = self.llm is not None, self.method is not None, self.target is None
        reader, url, model = self.reader, self.server.url, self.model.model
        is_rows = self.source == jsonl.STREAM or self.source.endswith((".jsonl", ".jsonl.gz"))
        refuse_if(llm and reader is not None, "--reader", reader, "nothing, since --llm answers")
        refuse_if(url is not None and not llm, "--url", url, "with --llm")
        refuse_if(
            method and model is not None,
            "--model",
            model,
            "nothing with --method: give the method its models in Python",
        )
        refuse_if(alone and is_rows, "output", None, "a .jsonl or .jsonl.gz file, or -")
        refuse_if(
            self.fitted is not None and self.template != OWN,
            "--template",
            self.template,
            "nothing, since --fitted sets the prompt",
        )
        refuse_if(
            method and self.fitted is not None,
            "--method",
            self.method,
            "nothing, since --fitted sets the method",
        )
        refuse_if(
            alone and self._index is None and not self._closed_book,
            "--index",
            None,
            "an index to answer the question from (--method vanilla needs none)",
        )

    @property
    def _index(self) -> Path | None:
        """The index to search: the one named, else the one in the fitted folder."""
        own = None if self.fitted is None else self.fitted / INDEX
        there = own is not None and own.is_dir()
        return own if self.search.index is None and there else self.search.index

    @property
    def _closed_book(self) -> bool:
        """Whether the method never retrieves, and so needs neither passages nor an index."""
        return NAMES.get((self.method or "").lower(), "").endswith("closed_book")

    @property
    def _llm(self) -> str | None:
        """Return who answers; None is the reader, which a folder fitted to it calls embedded."""
        return None if self.fitted is not None and self.llm == EMBEDDED else self.llm

    def answers(self) -> Answers:
        """Load the method and what it asks."""
        found: Any = (lambda queries: [[] for _ in queries]) if self._closed_book else None
        generate: Any = None
        fitted = None if self.fitted is None else Fitted.read(self.fitted)
        if fitted is not None:
            fitted.check(EMBEDDED if self.llm is None else models.model_name(self.llm))
        if self._index is not None:
            encoder = ModelOptions(model=self.search.encoder)
            k = self.search.k if fitted is None else fitted.promise.get("k", self.search.k)
            found = models.load_retriever(self._index, encoder, k=k)
        if self._llm is not None:
            generate = models.load_writer(self._llm, self.server, self.model)
        chosen: dict[str, Any] = {
            "top_n": self.top_n,
            "max_tokens": self.max_tokens,
            "window": self.window,
            "weight": self.weight,
            "count_tokens": self.tokenizer and counter_for(self.tokenizer),
        }
        chosen = {name: value for name, value in chosen.items() if value is not None}
        if fitted is not None:
            method = fitted.method(generate)
        elif self.method is not None:
            method = method_from(self.method, **chosen)
        else:
            chosen["count_tokens"] = counter_for(self.tokenizer or DEFAULTS.tokenizer)
            method = FitRag(models.load_scorer(self.model), **chosen)
        template = instruction_named(self.template) if fitted is None else FittedTemplate()
        reading = replace(self.model, model=self.reader)
        reader = models.load_reader(reading) if self._llm is None else None
        answering = Answering(method, reader=reader, template=template)
        web = None if self.web is None else models.load_web(self.web)
        return Answers(answering, found, generate, self.server.examples(), web)
