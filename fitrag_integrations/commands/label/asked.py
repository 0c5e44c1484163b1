"""Whose knowledge is asked: the options that name it, and how it is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict, Unpack

from fitrag_integrations import models
from fitrag_integrations.commands.engine import models as loading
from fitrag_integrations.commands.engine.options import Files, Hardware, RunOptions
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models.remote.generator import RemoteGenerator, RemoteOptions
from fitrag_integrations.training.asking_llm import RemoteAnswers

if TYPE_CHECKING:
    from fitrag_integrations.models import LocalGenerator

EMBEDDED = "embedded"
SERVED_TOKENS = 256
RowsOut: TypeAlias = Annotated[str, Option("Where to write: .jsonl or .jsonl.gz.", name="--out")]
LLM: TypeAlias = Annotated[
    str,
    Option(
        "Model whose knowledge is asked: a hub name, a folder, embedded, or with --url the "
        "server's name for it."
    ),
]


class Lengths(TypedDict, total=False):
    """Maximum lengths of generated texts, in tokens."""

    max_new_tokens: int
    draft_tokens: int


@dataclass(frozen=True, slots=True)
class Server:
    """Server to call, if any."""

    url: Annotated[
        str | None, Option("OpenAI-compatible server of the --llm; its key from OPENAI_API_KEY.")
    ] = None
    api: Annotated[str, Option("The server's endpoint: chat or completions.")] = "chat"
    concurrency: Annotated[int, Option("Prompts asked at once.", min=1)] = 8

    def __post_init__(self) -> None:
        if self.api not in ("chat", "completions"):
            raise InputError.of("--api", given=self.api, allowed="chat or completions")

    def generator(self, name: str, **lengths: Unpack[Lengths]) -> RemoteGenerator | None:
        """Make the client of a served model; None where there is no server."""
        if self.url is None:
            return None
        return RemoteGenerator(self.url, name, **lengths, **self._options())

    def answers(self, name: str, longest: int, retries: int, timeout: float) -> RemoteAnswers:
        """Make the client that tells besides the text what was paid and what was refused."""
        options: RemoteOptions = {
            **self._options(),
            "max_retries": retries,
            "timeout": timeout,
        }
        return RemoteAnswers(self.url or "", name, max_new_tokens=longest, **options)

    def _options(self) -> RemoteOptions:
        return {
            "api": "completions" if self.api == "completions" else "chat",
            "api_key": os.environ.get("OPENAI_API_KEY"),
            "concurrency": self.concurrency,
        }


@dataclass(frozen=True)
class RowsPlan:
    """Rows to label with a language model, and where they go."""

    source: Annotated[str, Argument("Rows of question and answers: .jsonl, .jsonl.gz, or -.")]
    out: RowsOut
    llm: LLM = EMBEDDED
    server: Server = Server()
    hardware: Hardware = Hardware()
    how: RunOptions = RunOptions()

    @property
    def files(self) -> Files:
        """Return what is read and written."""
        return Files(self.source, self.out)


def load_writer(name: str, server: Server, hardware: Hardware) -> Any:
    """Load who continues prompts: served, a LangChain PROVIDER:MODEL, or a local model."""
    if (served := server.generator(name)) is not None:
        return served
    if is_chat_model(name):
        return loading.batched(loading.load_chat_model(name))
    return load_llm(name, hardware)


def is_chat_model(name: str) -> bool:
    """Check whether a name is LangChain's PROVIDER:MODEL, and no path."""
    return ":" in name and not Path(name).exists()


def load_llm(
    name: str,
    hardware: Hardware,
    *,
    max_new_tokens: int | None = None,
    stop: tuple[str, ...] | None = None,
) -> LocalGenerator:
    """Load the model that answers; `embedded` is the small one that ships with the package."""
    kind = models.LocalGenerator
    load = kind.embedded if name == EMBEDDED else partial(kind.from_pretrained, name)
    try:
        made: LocalGenerator = load(
            device=hardware.device,
            dtype=hardware.dtype,
            batch_tokens=hardware.batch_tokens,
            max_new_tokens=max_new_tokens,
            stop=stop,
        )
    except ModelLoadError as error:
        if Path(name).exists():
            raise
        allowed = "a folder, a hub name, PROVIDER:MODEL, or with --url a name of the server"
        raise ModelLoadError(f"--llm: given {name}, allowed {allowed}. {error}") from error
    return made
