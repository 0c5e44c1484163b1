"""What a service is started with; a worker process reads it from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fitrag_integrations.commands.engine.rows import refuse_if
from fitrag_integrations.core.checks import Checked, Count, Seconds
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import InputError

PREFIX = "FITRAG_SERVE_"


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    """Models and limits of a service.

    `model`, `evaluator` and `gate` are names or folders, blank for the embedded ones; `device` and
    `dtype` say where and how they run, `backend` by what, blank for the models' own choice;
    `model_kwargs` is a JSON object for their from_pretrained.

    `api_key` is asked for on every route; without one the service is open, which is for a private
    network. At most `concurrency` requests are open at once, the next is answered 429; each holds
    at most `documents` documents and `payload` bytes and ends within `deadline` seconds (504); one
    for relevant spans has at most `sentences` sentences.
    `batch_tokens` of 0 leaves the choice to the models.
    """

    model: str = ""
    evaluator: str = ""
    gate: str = ""
    device: str = ""
    dtype: str = ""
    batch_tokens: int = 0
    backend: str = ""
    model_kwargs: str = ""
    api_key: Any = None
    documents: Count = 1000
    sentences: Count = 5000
    payload: Count = 8_000_000
    concurrency: Count = 64
    deadline: Seconds = 60.0

    def __post_init__(self) -> None:
        blank = isinstance(self.api_key, str) and not self.api_key.strip()
        allowed = "a key; to serve without one, unset the variable"
        refuse_if(blank, f"{PREFIX}API_KEY", "a blank text", allowed)
        if not isinstance(self.api_key, Secret):
            object.__setattr__(self, "api_key", Secret(self.api_key))
        super().__post_init__()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read `FITRAG_SERVE_MODEL`, `FITRAG_SERVE_API_KEY` and so on, as a worker process does.

        Raises `InputError` for a variable of no setting, and for a number that is none.
        """
        kinds = {f"{PREFIX}{f.name.upper()}": f for f in fields(cls)}
        given: dict[str, Any] = {}
        for name, text in environment.items():
            if not name.startswith(PREFIX):
                continue
            refuse_if(name not in kinds, name, "a value", ", ".join(kinds))
            kind = type(kinds[name].default)
            try:
                given[kinds[name].name] = kind(text) if kind in (int, float) else text
            except ValueError:
                raise InputError.of(name, given=text, allowed="a number") from None
        return cls(**given)

    def to_environment(self) -> dict[str, str]:
        """Write what `from_environment` reads; the key with it, for one's own worker processes."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "api_key"}
        found = {f"{PREFIX}{name.upper()}": str(value) for name, value in shown.items() if value}
        return found | ({f"{PREFIX}API_KEY": self.api_key.reveal()} if self.api_key.found else {})
