"""Settings and limits of the service."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import InputError, refuse_if

log = logging.getLogger("uvicorn.error")
PREFIX = "FITRAG_SERVE_"  # of the variables from which a worker process reads its settings
KUBERNETES = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_[A-Z]+(_[A-Z]+)?)?)")
"""Variables that Kubernetes sets for a Service of such a name: no settings."""
WATCHED = {"/health", "/info", "/metrics"}  # answered however crowded it is
ROUTES = {"/rerank", "/v1/rerank", "/v2/rerank", "/compress", "/route", "/gate", *WATCHED}
ELEMENTS = 100_000  # values, lists and objects of a body: more take seconds and gigabytes to parse
DEPTH = 100  # lists and objects within each other
CHARACTERS = 2_000_000  # of a document, or of a text that has no bound of its own
TEXTS = {"query": 50_000, "question": 50_000, "draft": 20_000, "title": 2_000}
HEADER_SECONDS, HEADER_BYTES = 10.0, 16_384
BODY_SECONDS = 20.0  # until the whole body has arrived
DRAINED_SECONDS = 2.0  # that a refused client may go on sending before it gets the reply
READING = 4  # bodies being read, for each request that may be open
HELD = 32  # bodies of the largest size whose bytes all that are being read may have together
CONNECTIONS = 1000  # of a process, and at most half of the files it may open
ROOM = 8  # of them that may wait for a header beyond that: `/health` is answered
REPLY_SECONDS = 30.0  # for a client to read a reply
HEARD_SECONDS = 0.5  # in which what a new client has sent is read
UNREAD_SECONDS = 5.0  # without reading, after which a reply may be cut where there is no room
HEALTHCHECK_SECONDS = 30  # for a process to answer uvicorn: a busy one that loads models is slow


@dataclass(frozen=True, kw_only=True)
class Bounds(Checked):
    """Limits of a request that the command line and the environment may set."""

    documents: Annotated[int, Option("Documents a request may hold.", min=1)] = 1000
    sentences: Annotated[int, Option("Sentences a request for relevant_spans may hold.", min=1)] = (
        5000
    )
    payload: Annotated[int, Option("Bytes a request may hold.", min=1)] = 8_000_000
    concurrency: Annotated[int, Option("Requests answered at once; the next gets 429.", min=1)] = 64
    deadline: Annotated[float, Option("Seconds for an answer; then 504.", min=0.001)] = 60.0


@dataclass(frozen=True, kw_only=True)
class Settings(Bounds):
    """Models and limits of a service.

    `model`, `evaluator` and `gate` are names or folders, blank for the embedded ones, and for no
    gate; `device` and `dtype` say where and how they run, `backend` by what, blank for the models'
    own choice; `model_kwargs` is a JSON object for their from_pretrained.

    `api_key` is asked for on every route but /health; without one the service is open, which is for
    a private network. At most `concurrency` requests are open at once, the next is answered 429;
    each holds at most `documents` documents and `payload` bytes and ends within `deadline` seconds
    (504); one for relevant spans has at most `sentences` sentences.
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

        Those that Kubernetes sets for a Service named fitrag-serve are logged and ignored. Raises
        `InputError` for another variable of no setting, and for a number that is none.
        """
        kinds = {f"{PREFIX}{f.name.upper()}": f for f in fields(cls)}
        given: dict[str, Any] = {}
        for name, text in environment.items():
            if not name.startswith(PREFIX):
                continue
            if name not in kinds and KUBERNETES.fullmatch(name.removeprefix(PREFIX)):
                log.info("%s is ignored: Kubernetes sets it for a Service of this name", name)
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
