"""The door of the service: its settings, key, size, crowd and time; and what it counts."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any, TypeAlias

from fitrag_integrations.core import jsonl
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
HEADER_BYTES = 16_384
BODY_SECONDS = 20.0  # until the whole body has arrived
DRAINED_SECONDS = 2.0  # that a refused client may go on sending before it gets the reply
READING = 4  # bodies being read, for each request that may be open
HELD = 32  # bodies of the largest size whose bytes all that are being read may have together
HEALTHCHECK_SECONDS = 30  # for a process to answer uvicorn: a busy one that loads models is slow
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


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
        refuse_if(
            isinstance(self.api_key, str) and not self.api_key.strip(),
            f"{PREFIX}API_KEY",
            "a blank text",
            "a key; to serve without one, unset the variable",
        )
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


class Refusal(Exception):
    """End a request with a status, a kind and a reason."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.kind = status, kind


class Metrics:
    """Keep one service's figures; each service has a registry of its own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = kept = CollectorRegistry()
        self._count = Counter("fitrag_requests", "Requests.", ["route", "status"], registry=kept)
        self._seconds = Histogram(
            "fitrag_seconds", "Seconds a request took.", ["route"], registry=kept
        )
        self.pairs = Counter("fitrag_pairs", "Pairs scored.", registry=kept)
        self.open = Gauge("fitrag_open_requests", "Requests being answered.", registry=kept)

    @contextmanager
    def timed(self, path: str) -> Iterator[Callable[[int], None]]:
        """Time a request; the caller passes its status before it ends."""
        route = path if path in ROUTES else "other"  # a path of one's own making is no label
        begun = time.perf_counter()
        yield lambda status: self._count.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(time.perf_counter() - begun)


class Crowd:
    """Places for the requests that are answered at once, each with a deadline."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings, self._gauge, self._open = settings, metrics.open, 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises `Refusal` if there is none, or if the deadline passes."""
        if self._open >= self._settings.concurrency:
            raise Refusal(429, "Overloaded", f"{self._open} requests are open: try again in 1 s")
        self._open += 1
        self._gauge.set(self._open)
        try:
            async with asyncio.timeout(self._settings.deadline):
                yield
        except TimeoutError:
            late = f"not answered within {self._settings.deadline:g} s: send fewer documents"
            raise Refusal(504, "Deadline", late) from None
        finally:
            self._open -= 1
            self._gauge.set(self._open)


class Door:
    """Let a request in, or say why not; count what comes out."""

    def __init__(
        self,
        app: Callable[[Message, Receive, Send], Awaitable[None]],
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._crowd = Crowd(settings, metrics)
        self._reading = self._held = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun, unread, status = False, True, 500

        async def received() -> Message:
            nonlocal unread
            message = await receive()
            unread = bool(message.get("more_body"))
            return message

        async def watched(message: Message) -> None:
            nonlocal begun, status
            if message["type"] == "http.response.start":
                begun, status = True, message["status"]
            await send(message)

        path = scope["path"]  # with the prefix under which a proxy or another application has it
        inside = path.removeprefix(scope.get("root_path", ""))
        path = inside if inside.startswith("/") else path
        with self._metrics.timed(path) as ended:
            try:
                await self._enter(path, scope, received, watched)
            except Refusal as refusal:
                if begun:
                    raise
                from starlette.responses import JSONResponse

                with suppress(TimeoutError):  # a client that is still sending reads no reply
                    async with asyncio.timeout(DRAINED_SECONDS):
                        left = 2 * self._settings.payload * (refusal.status != 408)
                        while unread and left > 0:
                            left -= len((await received()).get("body", b""))
                extra = {"Retry-After": "1"} if refusal.status == 429 else {}
                if unread or refusal.status == 401:  # nobody without the key keeps a connection
                    extra["Connection"] = "close"
                await JSONResponse(worded(refusal.kind, str(refusal)), refusal.status, extra)(
                    scope, receive, watched
                )
            finally:
                ended(status)
        return None

    async def _enter(self, path: str, scope: Message, receive: Receive, send: Send) -> None:
        key, headers = self._settings.api_key, dict(scope["headers"])
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        size += len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
        if size > HEADER_BYTES:  # uvicorn bounds one that comes in parts only
            raise Refusal(431, "Header", f"the header has {size} bytes, allowed {HEADER_BYTES}")
        if path == "/health":  # probes have no key
            return await self._app(scope, receive, send)
        scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
        right = key.found and hmac.compare_digest(sent.strip(), key.reveal().encode())
        if key.found and not (right and scheme.lower() == b"bearer"):
            raise Refusal(401, "Unauthorized", "send the header Authorization: Bearer KEY")
        if path in WATCHED:
            return await self._app(scope, receive, send)
        body = await self._read(scope, receive)  # a slow sender holds no slot
        async with self._crowd.place():
            await self._app(scope, body, send)
        return None

    async def _read(self, scope: Message, receive: Receive) -> Receive:
        """Read and check the body; FastAPI would answer 400 where reading fails."""
        if self._reading >= READING * self._settings.concurrency:
            raise Refusal(
                429, "Overloaded", f"{self._reading} bodies are being sent: try again in 1 s"
            )
        self._reading += 1
        try:
            async with asyncio.timeout(min(BODY_SECONDS, self._settings.deadline)):
                body = await self._received(scope, receive)
        except TimeoutError:
            raise Refusal(
                408, "Deadline", "the body did not arrive in time: send it again"
            ) from None
        finally:
            self._reading -= 1
        check = partial(jsonl.check_size, body, values=ELEMENTS, depth=DEPTH)
        try:
            await asyncio.to_thread(check) if len(body) > ELEMENTS else check()
        except UnicodeError as error:
            raise Refusal(400, "Request", f"the body is {error}: encode it so") from None
        except ValueError as error:
            raise Refusal(413, "Payload", f"the body is {error}: send less a request") from None
        whole = iter([{"type": "http.request", "body": body}])

        async def again() -> Message:
            return next(whole, None) or await receive()

        return again

    async def _received(self, scope: Message, receive: Receive) -> bytes:
        """Return the body, at most `payload` bytes of it."""
        most, body = self._settings.payload, bytearray()
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > most:
            raise Refusal(413, "Payload", f"the body has {int(declared)} bytes, allowed {most}")
        try:
            while True:
                message = await receive()
                chunk = message.get("body", b"")
                body += chunk
                self._held += len(chunk)
                if len(body) > most:
                    raise Refusal(413, "Payload", f"the body has over {most} bytes")
                if self._held > HELD * most:
                    busy = "too many large bodies are being sent: try again in 1 s"
                    raise Refusal(429, "Overloaded", busy)
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return bytes(body)
        finally:
            self._held -= len(body)


def worded(kind: str, reason: str) -> dict[str, str]:
    """Word an error for all clients: TEI's read `error`, Cohere's `message`, Jina's `detail`."""
    return {"error": reason, "error_type": kind, "message": reason, "detail": reason}
