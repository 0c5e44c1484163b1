"""Options of the labeling verbs: the model called, the passages read, prices and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import (
    EncoderHardware,
    Files,
    Hardware,
    RunOptions,
    Server,
)
from fitrag_integrations.commands.engine.progress import RowsPlan
from fitrag_integrations.commands.engine.rows import rows_as
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Port
from fitrag_integrations.methods.settings import EMBEDDED
from fitrag_integrations.ports import port_of
from fitrag_integrations.training.asking_llm import PROMPT, AskLLM, AskReader, RemoteAnswers
from fitrag_integrations.training.rows import passage_row
from fitrag_integrations.types import Passage

SERVED_TOKENS = 256
RowsOut: TypeAlias = Annotated[str, Option("Where to write: .jsonl or .jsonl.gz.", name="--out")]


@dataclass(frozen=True)
class LabelPlan(RowsPlan):
    """Base of the verbs that label rows with what a language model writes about them."""

    source: Annotated[str, Argument("Rows of question and answers: .jsonl, .jsonl.gz, or -.")]
    out: RowsOut
    llm: Annotated[
        str,
        Option(
            "Model whose knowledge is labeled: a hub name, a folder, or with --url the server's "
            "name for it."
        ),
    ]
    server: Server = Server()
    hardware: Hardware = Hardware()
    how: RunOptions = RunOptions()

    @property
    def files(self) -> Files:
        """Return what is read and written."""
        return Files(self.source, self.out)


def _check_file(field: str, path: Path | None) -> None:
    if path is not None and not path.is_file():
        raise InputError.missing(f"File of {field}", path)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where passages come from for rows without any."""

    pool: Annotated[
        Path | None, Option("Passages (title, text) that BM25 searches for candidates.")
    ] = None
    index: Annotated[Path | None, Option("Index of `fitrag index` to search for candidates.")] = (
        None
    )

    def __post_init__(self) -> None:
        _check_file("--pool", self.pool)
        refuse_if(
            self.pool is not None and self.index is not None,
            "--index",
            str(self.index),
            "one of --pool and --index",
        )

    def port(self, hardware: EncoderHardware, depth: int) -> Port[str, Sequence[Passage]] | None:
        """Return the search; None where each row brings its own passages."""
        if self.index is not None:
            retriever = models.load_retriever(self.index, hardware.of(None), k=depth)
            return port_of("retrieve", retriever, "retrieve")
        if self.pool is None:
            return None
        passages = rows_as([self.pool], passage_row)
        return port_of("retrieve", models.searching_words(passages, k=depth), "retrieve")


@dataclass(frozen=True, slots=True)
class Asking:
    """Model that reads the passages, and how it is called."""

    llm: Annotated[
        str,
        Option(
            "Model that reads the passages: embedded, a reader's or causal model's folder or hub "
            "name, a LangChain PROVIDER:MODEL, or with --url the server's name for the model.",
        ),
    ] = EMBEDDED
    server: Server = Server()
    prompt: Annotated[
        Path | None, Option("File with a prompt template of {question} and {passage}.")
    ] = None
    retries: Annotated[int, Option("Retries of a failed prompt.", min=0)] = 4
    max_new_tokens: Annotated[int, Option("Maximum tokens of an answer.", min=1)] = 64

    def __post_init__(self) -> None:
        _check_file("--prompt", self.prompt)


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop."""

    price_read: Annotated[
        float,
        Option("Price of a million prompt tokens.", name="--price-in", min=0),
    ] = 0.0
    price_written: Annotated[
        float,
        Option(
            "Price of a million answer tokens.",
            name="--price-out",
            min=0,
        ),
    ] = 0.0
    max_cost: Annotated[
        float | None, Option("Stop before all runs together cost more; requires prices.", min=0)
    ] = None
    max_failures: Annotated[
        int, Option("Stop after this many failures in a row; 0: never.", min=0)
    ] = 100

    def __post_init__(self) -> None:
        refuse_if(
            self.max_cost is not None and not self.price_read + self.price_written,
            "--max-cost",
            self.max_cost,
            "a cost with --price-in and --price-out",
        )


def load_asker(asking: Asking, hardware: EncoderHardware) -> AskLLM | AskReader:
    """Load who is asked, by what the name names."""
    name, server, longest = asking.llm, asking.server, asking.max_new_tokens
    prompt = PROMPT if asking.prompt is None else asking.prompt.read_text(encoding="utf-8")
    if server.url is None and (name == EMBEDDED or models.model_kind(Path(name)) == "reader"):
        return AskReader(models.load_reader(hardware.of(None if name == EMBEDDED else name)), name)
    llm: object = server.generator(
        name, RemoteAnswers, max_new_tokens=longest, max_retries=asking.retries
    )
    if llm is None and models.is_chat_model(name):
        llm = models.load_chat_model(name)
    elif llm is None:
        llm = models.load_llm(name, server, hardware, max_new_tokens=longest)
    return AskLLM(
        llm,
        name=models.model_name(name),
        prompt=prompt,
        concurrency=server.concurrency,
        retries=asking.retries,
        timeout=server.timeout,
    )
