"""Speak to an OpenAI-compatible server: bounded, retried, and silent about the key.

Left out: streaming, and everything but JSON in and JSON out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fitrag_integrations._checks import check_number, check_text, check_whole
from fitrag_integrations._extras import require_extra
from fitrag_integrations._secret import Secret
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.models.openai_replies import retry_after

T = TypeVar("T")
PASSING = {408, 429, 500, 502, 503, 504}  # status codes another try may mend
SHOWN = 200  # characters of a refusal that an error repeats


class OpenAIClient:
    """Post JSON to one server from any thread and any event loop.

    Each event loop gets connections of its own, which are closed with it. At most `concurrency`
    requests of a loop are open at once. A refusal for the moment (429, 5xx, a broken connection)
    is tried again up to `max_retries` times, after what Retry-After says or else ever longer. The
    key is sent and otherwise appears nowhere: not in a message, a `repr` or a pickle.
    """

    def __init__(
        self, base_url: str, *, api_key: Any, timeout: float, max_retries: int, concurrency: int
    ) -> None:
        for module in ("httpx", "tenacity"):
            require_extra(module, extra="remote", feature="a remote model")
        self.base_url = _checked_url(base_url)
        self._secret = Secret(api_key)
        self._timeout = check_number("timeout", timeout, low=0.001)
        self._tries = 1 + check_whole("max_retries", max_retries, low=0)
        self._concurrency = check_whole("concurrency", concurrency, low=1)
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._lock = Lock()

    async def post_all(self, path: str, bodies: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Post every body; gives each reply, or in its place the error that befell it alone."""
        line = await self._line()
        posts = [self._post(line, path, body) for body in bodies]
        return list(await asyncio.gather(*posts, return_exceptions=True))

    async def _post(self, line: _Line, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        tenacity = require_extra("tenacity", extra="remote", feature="a remote model")
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: getattr(error, "wait", None) is not None
            ),
            stop=tenacity.stop_after_attempt(self._tries),
            wait=_Wait(tenacity.wait_random_exponential(multiplier=0.5, max=20.0)),
            reraise=True,
        )
        try:
            async with line.limit:
                found: dict[str, Any] = await tries(self._once, line, path, body)
        except RemoteError as error:
            told = PortError(str(error))
        else:
            return found
        raise told  # outside, so that no request with its headers hangs on to it

    async def _once(self, line: _Line, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        httpx = require_extra("httpx", extra="remote", feature="a remote model")
        error: RemoteError
        try:
            reply = await line.client.post(f"{self.base_url}{path}", json=body)
        except httpx.TransportError as failed:
            error = self._error(f"{type(failed).__name__}: {failed}", wait=-1.0)
        else:
            if reply.status_code == 200:
                return self._read(reply)
            told = f"status {reply.status_code}: {' '.join(reply.text.split())[:SHOWN]}"
            error = self._error(told, wait=self._wait(reply))
        raise error

    def _read(self, reply: Any) -> dict[str, Any]:
        try:
            found = reply.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._error("the reply is no JSON object", wait=None)
        return found

    def _wait(self, reply: Any) -> float | None:
        """Give the seconds to wait before another try, -1 where we choose, None for no other."""
        if reply.status_code not in PASSING:
            return None
        asked = retry_after(reply.headers.get("retry-after"))
        return None if asked > self._timeout else asked  # too long: tell the caller instead

    def _error(self, told: str, *, wait: float | None) -> RemoteError:
        return RemoteError(self._secret.hide(f"{self.base_url}: {told}"), wait)

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
            headers=self._secret.headers(),
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=self._concurrency),
        )
        return _Line(client, asyncio.Semaphore(self._concurrency), _kept(client))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without connections; a client with a key refuses, as the key would be in it."""
        if self._secret.headers():
            raise TypeError(f"the client of {self.base_url} holds a key: make it anew instead")
        given = (self.base_url, self._timeout, self._tries - 1, self._concurrency)
        return _remade, given

    def __repr__(self) -> str:
        return f"OpenAIClient({self.base_url!r})"


class RemoteError(PortError):
    """Say what went wrong, and whether to wait and try again; never leaves this module."""

    def __init__(self, message: str, wait: float | None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass
class _Line:
    """What belongs to one event loop."""

    client: Any
    limit: asyncio.Semaphore
    keeper: AsyncIterator[None]


async def _kept(client: Any) -> AsyncIterator[None]:
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


def _remade(base_url: str, timeout: float, max_retries: int, concurrency: int) -> OpenAIClient:
    return OpenAIClient(
        base_url, api_key=None, timeout=timeout, max_retries=max_retries, concurrency=concurrency
    )


def finish(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from any thread, also one whose event loop is running."""
    context = copy_context()
    with ThreadPoolExecutor(1, "fitrag-remote") as pool:
        return pool.submit(context.run, lambda: asyncio.run(make())).result()


def _checked_url(given: Any) -> str:
    url = check_text("base_url", given, blank=False).rstrip("/")
    parts = urlsplit(url)
    if parts.username or parts.password:  # not repeated: it is a secret
        raise InputError("base_url: given one with a user or password, allowed: give api_key")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        allowed = "an address such as 'http://localhost:8000/v1'"
        raise InputError.of("base_url", given=given, allowed=allowed)
    return url
