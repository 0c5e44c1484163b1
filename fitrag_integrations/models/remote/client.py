"""JSON over HTTP to one server: bounded in time and size, retried, and without a trace of the key.

Streaming is not supported.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from fitrag_integrations.core.checks import check_number, check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import ReplyLimits, read_body, retry_after
from fitrag_integrations.core.jsonl import check_size
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import InputError, PortError, SearchError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
TEMPORARY = {408, 429, 500, 502, 503, 504}  # status codes that are worth a retry
SHOWN = 200  # characters of an error response that are repeated in the error
ERROR_BYTES = 16_384  # of an error response that are read
LIMITS = ReplyLimits(max_bytes=12 << 20, max_decoded_bytes=12 << 20)  # 5,000 scores need 40 kB
VALUES, DEPTH = 500_000, 100  # of the JSON of a response: 4,096 tokens with 20 others have 90,000
FAILURES = 8
"""Requests in a row that fail, after their retries, before the server counts as down."""
PAUSE = 10.0
"""Seconds for which a server that is down gets no request; then one is let through."""


class Refused(PortError):
    """Error response of a server; `status` is None if there was no response."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the status, which plain exceptions would drop."""
        return Refused, (str(self), self.status)


class RemoteError(Refused):
    """Failed attempt: `wait` is None if it is final, else the Retry-After in seconds or -1."""

    def __init__(self, message: str, wait: float | None, status: int | None = None) -> None:
        super().__init__(message, status)
        self.wait = wait


@dataclass
class _Connection:
    """Client of one event loop, its limit, and what closes it when the loop ends."""

    client: httpx.AsyncClient
    limit: asyncio.Semaphore
    keeper: AsyncIterator[None]


@dataclass
class _Breaker:
    """Circuit breaker: after `FAILURES` failures in a row, reject requests for `PAUSE` seconds."""

    failures: int = 0
    until: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def check(self) -> str | None:
        """Return why a request is rejected, or None; after the pause let a single one through."""
        with self.lock:
            left = self.until - time.monotonic()
            if self.failures < FAILURES:
                return None
            if left > 0:
                return f"{self.failures} requests in a row failed; next try in {left:.0f} s"
            self.until = time.monotonic() + PAUSE
            return None

    def record(self, *, failed: bool) -> None:
        with self.lock:
            self.failures = self.failures + 1 if failed else 0
            if self.failures == FAILURES:
                self.until = time.monotonic() + PAUSE


class OpenAIClient:
    """Client that posts JSON to one server, from any thread and any event loop.

    Each event loop has its own connections, which are closed with it. A temporary failure (408,
    429, 5xx, a broken connection) is retried after its Retry-After, or with exponential backoff.
    After `FAILURES` failed requests in a row further ones are rejected for `PAUSE` seconds. A
    response is decompressed within `LIMITS`. The key appears in no message, `repr` or pickle.

    Args:
        base_url: Address of the server, without user name or password.
        api_key: String, object with `get_secret_value`, or None.
        timeout: Seconds for one attempt, including a response that arrives slowly.
        max_retries: Maximum number of retries of a request.
        concurrency: Maximum number of concurrent requests in one event loop.
        deadline: Seconds for a request with all its retries and waits. None is no limit.
        replies: Type that the JSON value of a response must have.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: object,
        timeout: float,
        max_retries: int,
        concurrency: int,
        deadline: float | None = None,
        replies: type | tuple[type, ...] = dict,
    ) -> None:
        for module in ("httpx", "tenacity"):
            require_extra(module, extra="remote", feature="a remote model")
        self.base_url = _checked_url(base_url)
        self._secret = Secret(api_key)
        self._timeout = check_number("timeout", timeout, low=0.001)
        self._tries = 1 + check_whole("max_retries", max_retries, low=0)
        self._concurrency = check_whole("concurrency", concurrency, low=1)
        self._deadline = None if deadline is None else check_number("deadline", deadline, low=0.001)
        self._replies = replies
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._lock = Lock()
        self._breaker = _Breaker()

    async def post_all(self, path: str, bodies: Sequence[Mapping[str, object]]) -> list[object]:
        """Post every body; return each response, or in its place the error of that request."""
        posts = [self.post(path, body) for body in bodies]
        return list(await asyncio.gather(*posts, return_exceptions=True))

    async def post(self, path: str, body: Mapping[str, object]) -> object:
        """Post one body and return the JSON of the response.

        Args:
            path: Path below the base address.
            body: Body of the request.

        Raises:
            Refused: If the request fails, with the status of the response if there was one.
        """
        tenacity = require_extra("tenacity", extra="remote", feature="a remote model")
        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=20.0)

        def pause(state: Any) -> float:
            wait: float = state.outcome.exception().wait
            return wait if wait >= 0.0 else float(backoff(state))

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, RemoteError) and error.wait is not None
            ),
            stop=tenacity.stop_after_attempt(self._tries),
            wait=pause,
            reraise=True,
        )
        connection = await self._connection()
        try:
            async with connection.limit, asyncio.timeout(self._deadline):
                if (why := self._breaker.check()) is not None:
                    raise self._error(why, wait=None)
                found = await retrying(self._attempt, connection.client, path, body)
        except TimeoutError:
            self._breaker.record(failed=True)
            message = f"no response within the deadline of {self._deadline:g} s"
            refused = Refused(str(self._error(message, wait=None)))
        except RemoteError as error:
            self._breaker.record(failed=error.status is None or error.status in TEMPORARY)
            refused = Refused(str(error), error.status)
        else:
            self._breaker.record(failed=False)
            return found
        raise refused  # here, so that no request with its headers is its context

    async def _attempt(
        self, client: httpx.AsyncClient, path: str, body: Mapping[str, object]
    ) -> object:
        httpx = require_extra("httpx", extra="remote", feature="a remote model")
        url, headers = f"{self.base_url}{path}", {"Accept-Encoding": "gzip"}
        error: RemoteError
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream("POST", url, json=body, headers=headers) as reply,
            ):
                found = await read_body(
                    reply.aiter_raw(),
                    encoding=reply.headers.get("content-encoding", ""),
                    limits=LIMITS,
                    cut=None if reply.status_code == 200 else ERROR_BYTES,
                )
        except TimeoutError:
            error = self._error(f"no complete response within {self._timeout:g} s", wait=-1.0)
        except httpx.RequestError as failed:  # it holds the request, and so the key
            wait = -1.0 if isinstance(failed, httpx.TransportError) else None
            error = self._error(f"{type(failed).__name__}: {failed}", wait=wait)
        except SearchError as failed:  # beyond a limit, or incomplete
            wait = -1.0 if failed.kind == "transient" else None
            error = self._error(f"the response was not read: {failed}", wait=wait)
        else:
            if reply.status_code == 200:
                return self._parsed(found)
            message = f"status {reply.status_code}: {found.decode('utf-8', 'replace')}"
            wait = self._wait(reply.status_code, reply.headers)
            error = self._error(message, wait=wait, status=reply.status_code)
        raise error

    def _parsed(self, content: bytes) -> object:
        try:
            check_size(content, values=VALUES, depth=DEPTH)
            text = content.decode("utf-8-sig")
            found = json.loads(text if self._secret.weak else self._secret.redact(text))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, self._replies):
            raise self._error("the response is not the expected JSON", wait=None)
        return found

    def _wait(self, status: int, headers: Mapping[str, str]) -> float | None:
        """Return the seconds before a retry, -1 for the usual backoff, None for no retry."""
        if status not in TEMPORARY:
            return None
        asked = retry_after(headers.get("retry-after"))
        if asked is None:
            return -1.0
        return None if asked > self._timeout else asked

    def _error(self, message: str, *, wait: float | None, status: int | None = None) -> RemoteError:
        """Build an error; redact before shortening, because a part of a key is not recognized."""
        at, text = map(self._secret.redact, (self.base_url, message))
        return RemoteError(f"{at}: {' '.join(text.split())[:SHOWN]}", wait, status)

    async def _connection(self) -> _Connection:
        """Return the connections of the running loop, and drop those of closed loops."""
        httpx = require_extra("httpx", extra="remote", feature="a remote model")
        loop = asyncio.get_running_loop()
        with self._lock:
            for dead in [each for each in self._connections if each.is_closed()]:
                del self._connections[dead]
            known = self._connections.get(loop)
            if known is not None:
                return known
            key = self._secret.reveal()
            client = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {key}"} if self._secret.found else {},
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=self._concurrency),
            )
            made = _Connection(client, asyncio.Semaphore(self._concurrency), _kept(client))
            self._connections[loop] = made
        await anext(made.keeper)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without connections; a client with a key cannot be pickled."""
        if self._secret.found:
            raise TypeError(f"the client of {self.base_url} holds a key: create it anew instead")
        given = (self.base_url, self._timeout, self._tries - 1, self._concurrency)
        return _remade, (*given, self._deadline, self._replies)

    def __repr__(self) -> str:
        return f"OpenAIClient({self.base_url!r})"


async def _kept(client: httpx.AsyncClient) -> AsyncIterator[None]:
    """Close the client when the loop ends: an ending loop closes its async generators."""
    async with client:
        yield


def _remade(
    base_url: str,
    timeout: float,
    max_retries: int,
    concurrency: int,
    deadline: float | None,
    replies: type | tuple[type, ...],
) -> OpenAIClient:
    return OpenAIClient(
        base_url,
        api_key=None,
        timeout=timeout,
        max_retries=max_retries,
        concurrency=concurrency,
        deadline=deadline,
        replies=replies,
    )


def _checked_url(given: object) -> str:
    url = check_text("base_url", given, blank=False).rstrip("/")
    parts = urlsplit(url)
    if parts.username or parts.password:  # not repeated: it is a secret
        raise InputError("base_url: given one with a user or password, allowed: pass api_key")
    if parts.query or parts.fragment:  # where a key may stand, and no path can follow
        raise InputError("base_url: given one with a query, allowed: pass a key as api_key")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        allowed = "an address such as 'http://localhost:8000/v1'"
        raise InputError.of("base_url", given=given, allowed=allowed)
    return url
