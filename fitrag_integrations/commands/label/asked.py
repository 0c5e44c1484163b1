"""Whose knowledge is asked: the options that name it, and how it is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from fitrag_integrations import models
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.remote.generator import RemoteGenerator

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


@dataclass(frozen=True, slots=True)
class Server:
    """Say which server is asked, if any."""

    url: Annotated[
        str | None, Option("OpenAI-compatible server of the --llm; its key from OPENAI_API_KEY.")
    ] = None
    api: Annotated[str, Option("The server's endpoint: chat or completions.")] = "chat"
    concurrency: Annotated[int, Option("Requests open at once.", min=1)] = 8

    def __post_init__(self) -> None:
        if self.api not in ("chat", "completions"):
            raise InputError.of("--api", given=self.api, allowed="chat or completions")

    def generator(self, name: str, **more: Any) -> RemoteGenerator | None:
        """Make the client of a served model; None where there is no server."""
        if self.url is None:
            return None
        return RemoteGenerator(
            self.url,
            name,
            api="completions" if self.api == "completions" else "chat",
            api_key=os.environ.get("OPENAI_API_KEY"),
            concurrency=self.concurrency,
            **more,
        )


def load_llm(name: str, **how: Any) -> LocalGenerator:
    """Load the model that answers; `embedded` is the small one that ships with the package."""
    if name == EMBEDDED:
        return models.LocalGenerator.embedded(**how)
    return models.LocalGenerator.from_pretrained(name, **how)
