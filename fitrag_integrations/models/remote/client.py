"""Speak JSON to a server: bounded in time and size, retried, and silent about the key.

Left out: streaming, and everything but JSON in and JSON out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from fitrag_integrations.core.checks import check_number, check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import retry_after
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import InputError, PortError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
PASSING = {408, 429, 500, 502, 503, 504}  # status codes another try may mend
SHOWN = 200  # characters of a refusal that an error repeats
MOST = 32 << 20  # bytes of a reply, unpacked: 5,000 scores are one thousandth of it


class OpenAIClient:
    """Post JSON to one server from any thread and any event loop.

    Each event loop gets connections of its own, which are closed with it. At most `concurrency`
    requests of a loop are open at once. A refusal for the moment (429, 5xx, a broken connection)
    is tried again up to `max_retries` times, after what Retry-After says or else ever longer.
    `timeout` is for the whole of one try, however slowly its reply drips in. The key is sent and
    otherwise appears nowhere: not in a message, a `repr` or a pickle. `replies` is the kind of
    JSON value that a reply has to be.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: object,
        timeout: float,
        max_retries: int,
        concurrency: int,
        replies: type | tuple[type, ...] = dict,
    ) -> None:
        for module in ("httpx", "tenacity"):
            require_extra(module, extra="remote", feature="a remote model")
        self.base_url = _checked_url(base_url)
        self._secret = Secret(api_key)
        self._timeout = check_number("timeout", timeout, low=0.001)
        self._tries = 1 + check_whole("max_retries", max_retries, low=0)
        self._concurrency = check_whole("concurrency", concurrency, low=1)
        self._replies = replies
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._lock = Lock()

    async def post_all(self, path: str, bodies: Sequence[Mapping[str, object]]) -> list[object]:
        """Post every body; gives each reply, or in its place the error that befell it alone."""
        line = await self._line()
        posts = [self._post(line, path, body) for body in bodies]
        return list(await asyncio.gather(*posts, return_exceptions=True))

    async def post(self, path: str, body: Mapping[str, object]) -> object:
        """Post one body. Raises `Refused`, which tells the status where there is one."""
        return await self._post(await self._line(), path, body)

    async def _post(self, line: _Line, path: str, body: Mapping[str, object]) -> object:
        tenacity = require_extra("tenacity", extra="remote", feature="a remote model")
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, RemoteError) and error.wait is not None
            ),
            stop=tenacity.stop_after_attempt(self._tries),
            wait=_Wait(tenacity.wait_random_exponential(multiplier=0.5, max=20.0)),
            reraise=True,
        )
        try:
            async with line.limit:
                found = await tries(self._once, line, path, body)
        except RemoteError as error:
            told = Refused(str(error), error.status)
        else:
            return found
        raise told  # outside, so that no request with its headers hangs on to it

    async def _once(self, line: _Line, path: str, body: Mapping[str, object]) -> object:
        httpx = require_extra("httpx", extra="remote", feature="a remote model")
        error: RemoteError
        try:
            async with asyncio.timeout(self._timeout):
                status, headers, content = await _exchange(
                    line.client, f"{self.base_url}{path}", body
                )
        except TimeoutError:
            error = self._error(f"no whole reply within {self._timeout:g} s", wait=-1.0)
        except httpx.RequestError as failed:  # holds the request, and so the key
            passing = isinstance(failed, httpx.TransportError)
            error = self._error(
                f"{type(failed).__name__}: {failed}", wait=-1.0 if passing else None
            )
        else:
            if status == 200:
                return self._read(content)
            told = f"status {status}: {content.decode('utf-8', 'replace')}"
            error = self._error(told, wait=self._wait(status, headers), status=status)
        raise error

    def _read(self, content: bytes) -> object:
        try:
            if len(content) > MOST:
                raise self._error(f"the reply has over {MOST:,} bytes", wait=None)
            text = content.decode("utf-8-sig")
            found = json.loads(text if self._secret.weak else self._secret.redact(text))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, self._replies):
            raise self._error("the reply is not the JSON that was asked for", wait=None)
        return found

    def _wait(self, status: int, headers: Mapping[str, str]) -> float | None:
        """Give the seconds to wait before another try, -1 where we choose, None for no other."""
        if status not in PASSING:
            return None
        asked = retry_after(headers.get("retry-after"))
        if asked is None:
            return -1.0
        return None if asked > self._timeout else asked  # too long: tell the caller instead

    def _error(self, told: str, *, wait: float | None, status: int | None = None) -> RemoteError:
        """Redact, and cut what is left: a key that was cut first would not be found."""
        at, text = map(self._secret.redact, (self.base_url, told))
        return RemoteError(f"{at}: {' '.join(text.split())[:SHOWN]}", wait, status)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._secret.reveal()}"} if self._secret.found else {}

    async def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        with self._lock:
            for dead in [loop for loop in self._lines if loop.is_closed()]:
                del self._lines[dead]
            known = self._lines.get(loop)
            line = self._lines[loop] = known or self._connect()
        if known is None:
            await anext(line.keeper)
        return line

    def _connect(self) -> _Line:
        httpx = require_extra("httpx", extra="remote", feature="a remote model")
        client = httpx.AsyncClient(
            headers=self._headers(),
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=self._concurrency),
        )
        return _Line(client, asyncio.Semaphore(self._concurrency), _kept(client))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without connections; a client with a key refuses, as the key would be in it."""
        if self._secret.found:
            raise TypeError(f"the client of {self.base_url} holds a key: make it anew instead")
        given = (self.base_url, self._timeout, self._tries - 1, self._concurrency, self._replies)
        return _remade, given

    def __repr__(self) -> str:
        return f"OpenAIClient({self.base_url!r})"


class Refused(PortError):
    """Say what a server answered instead, with its `status`, None where there was no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the status, which plain exceptions would drop."""
        return Refused, (str(self), self.status)


class RemoteError(Refused):
    """Say what went wrong, and whether to wait and try again; never leaves this module."""

    def __init__(self, message: str, wait: float | None, status: int | None = None) -> None:
        super().__init__(message, status)
        self.wait = wait


async def _exchange(
    client: httpx.AsyncClient, url: str, body: Mapping[str, object]
) -> tuple[int, Mapping[str, str], bytes]:
    """Post, and read at most `MOST` bytes and one piece of what comes back, unpacked."""
    found = bytearray()
    async with client.stream("POST", url, json=body) as reply:
        async for piece in reply.aiter_bytes(65536):
            found += piece
            if len(found) > MOST:
                break
    return reply.status_code, reply.headers, bytes(found)


@dataclass
class _Line:
    """What belongs to one event loop."""

    client: httpx.AsyncClient
    limit: asyncio.Semaphore
    keeper: AsyncIterator[None]


async def _kept(client: httpx.AsyncClient) -> AsyncIterator[None]:
    """Close the client when the loop ends: an ending loop closes its async generators."""
    async with client:
        yield


@dataclass(frozen=True)
class _Wait:
    """Wait as the server asked, else ever longer."""

    otherwise: Callable[[Any], float]

    def __call__(self, state: Any) -> float:
        asked: float = state.outcome.exception().wait
        return asked if asked >= 0.0 else self.otherwise(state)


def _remade(
    base_url: str,
    timeout: float,
    max_retries: int,
    concurrency: int,
    replies: type | tuple[type, ...],
) -> OpenAIClient:
    return OpenAIClient(
        base_url,
        api_key=None,
        timeout=timeout,
        max_retries=max_retries,
        concurrency=concurrency,
        replies=replies,
    )


def finish(make: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine to its end from any thread, also one whose event loop is running."""
    context = copy_context()
    with ThreadPoolExecutor(1, "fitrag-remote") as pool:
        return pool.submit(context.run, lambda: asyncio.run(make())).result()


def _checked_url(given: object) -> str:
    url = check_text("base_url", given, blank=False).rstrip("/")
    parts = urlsplit(url)
    if parts.username or parts.password:  # not repeated: it is a secret
        raise InputError("base_url: given one with a user or password, allowed: give api_key")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        allowed = "an address such as 'http://localhost:8000/v1'"
        raise InputError.of("base_url", given=given, allowed=allowed)
    return url
