"""Who is asked about passages, where those come from, and when to give up: groups of options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.label.asked import EMBEDDED, Server, is_chat_model, load_llm
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.result import each_row
from fitrag_integrations.flow import Port
from fitrag_integrations.ports import port_of
from fitrag_integrations.training.asking_llm import PROMPT, AskLLM, AskReader
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Passage


def _check_file(field: str, path: Path | None) -> None:
    if path is not None and not path.is_file():
        raise InputError.of(field, given=str(path), allowed="a file that is there")


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
        if self.pool is not None and self.index is not None:
            allowed = "one of --pool and --index"
            raise InputError.of("--index", given=str(self.index), allowed=allowed)

    def port(self, hardware: EncoderHardware, depth: int) -> Port[str, Sequence[Passage]] | None:
        """Return the search; None where each row brings its own passages."""
        if self.index is not None:
            retriever = models.load_retriever(self.index, hardware.of(None), k=depth)
            return port_of("retrieve", retriever, "retrieve")
        if self.pool is None:
            return None
        passages = each_row(read_jsonl(self.pool), passage_row, f"{self.pool.name}, ")
        return port_of("retrieve", models.searching_words(passages, k=depth), "retrieve")


@dataclass(frozen=True, slots=True)
class Asking:
    """Model that reads the passages, and how it is called."""

    llm: Annotated[
        str,
        Option(
            "Model that reads the passages: embedded, a reader's or causal model's folder or hub "
            "name, a LangChain PROVIDER:MODEL, or with --url the server's name for the model.",
            aliases="--model",
        ),
    ] = EMBEDDED
    server: Server = Server()
    prompt: Annotated[
        Path | None, Option("File with a prompt template of {question} and {passage}.")
    ] = None
    retries: Annotated[int, Option("Retries of a failed prompt.", min=0)] = 4
    timeout: Annotated[float, Option("Timeout of a request in seconds.", min=0.001)] = 60.0
    max_new_tokens: Annotated[int, Option("Longest answer, in tokens.", min=1)] = 64

    def __post_init__(self) -> None:
        _check_file("--prompt", self.prompt)


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop."""

    price_read: Annotated[
        float,
        Option(
            "Price of a million prompt tokens.", name="--price-in", aliases="--price-read", min=0
        ),
    ] = 0.0
    price_written: Annotated[
        float,
        Option(
            "Price of a million answer tokens.",
            name="--price-out",
            aliases="--price-written",
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
        if self.max_cost is not None and not self.price_read + self.price_written:
            allowed = "a cost with --price-in and --price-out"
            raise InputError.of("--max-cost", given=self.max_cost, allowed=allowed)


def load_asker(asking: Asking, hardware: EncoderHardware) -> AskLLM | AskReader:
    """Load who is asked, by what the name names."""
    name, server, longest = asking.llm, asking.server, asking.max_new_tokens
    prompt = PROMPT if asking.prompt is None else asking.prompt.read_text(encoding="utf-8")
    is_reader = name == EMBEDDED or models.model_kind(Path(name)) == "reader"
    if server.url is None and is_reader:
        return AskReader(models.load_reader(hardware.of(None if name == EMBEDDED else name)), name)
    llm: object
    if server.url is not None:
        llm = server.answers(name, longest, asking.retries, asking.timeout)
    elif is_chat_model(name):
        llm = models.load_chat_model(name)
    else:
        llm = load_llm(name, hardware, max_new_tokens=longest)
    return AskLLM(
        llm,
        name=models.model_name(name),
        prompt=prompt,
        concurrency=server.concurrency,
        retries=asking.retries,
        timeout=asking.timeout,
    )
