"""Fetch a URL under a guard: by hand, hop by hop, each connection to a checked address."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import Meter, read_body, retry_after
from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.guard import NetworkGuard, shown

if TYPE_CHECKING:
    import httpcore
    import httpx


class Slots:
    """Limit on the number of concurrent requests, in total and per host, in one event loop."""

    def __init__(self, total: int, per_host: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._per_host = per_host
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """Wait for a slot; the queue of a slow host takes no slot from other hosts."""
        turns = self._hosts.setdefault(host, asyncio.Semaphore(self._per_host))
        async with turns, self._total:
            yield

    def alone(self, key: str) -> asyncio.Lock:
        """Return the lock of a key, for requests that should be sent once, not by every caller."""
        return self._locks.setdefault(key, asyncio.Lock())


PAGE_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
Permit: TypeAlias = "Callable[[httpx.URL, Allowance], Awaitable[None]]"


@dataclass
class Allowance:
    """Seconds ``left`` for a page, its redirects and their robots.txt."""

    left: float

    @asynccontextmanager
    async def spend(self) -> AsyncIterator[None]:
        """Subtract the time the block takes; raise ``TimeoutError`` if more than is left."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self.left):
                yield
        finally:
            self.left -= time.monotonic() - started


@dataclass(frozen=True)
class Fetched:
    """Last response of a chain of redirects; ``body`` is only read for a 2xx status."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes = b""


class PassingError(SearchError):
    """Temporary failure; ``after`` is the site's Retry-After in seconds, if it sent one."""

    def __init__(self, message: str, *, kind: str, after: float | None = None) -> None:
        super().__init__(message, kind=kind)
        self.after = after


class PinnedNetwork:
    """Httpcore network backend that only connects to addresses the guard has checked.

    Name lookup, check and connection are one step, so the name cannot change its address between
    them. TLS and the Host header keep the name.
    """

    def __init__(self, guard: NetworkGuard, network: httpcore.AsyncNetworkBackend) -> None:
        self._guard, self._network = guard, network

    async def connect_tcp(
        self, host: str, port: int, **options: Any
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of the host's addresses that accepts the connection."""
        *spare, last = await self._guard.addresses(host)
        for address in spare:
            try:
                return await self._network.connect_tcp(address, port, **options)
            except (_core().ConnectError, _core().ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, **options)

    async def connect_unix_socket(self, path: str, **options: object) -> object:
        """Refuse the connection: a page must not reach a socket of this machine."""
        raise SearchError("unix sockets are not fetched from", kind="blocked")

    async def sleep(self, seconds: float) -> None:
        """Sleep as the underlying network does."""
        await self._network.sleep(seconds)


class Fetcher:
    """HTTP client for one event loop; an async context manager that closes its connections."""

    def __init__(self, guard: NetworkGuard, slots: Slots) -> None:
        self.guard, self.slots = guard, slots
        self._pool: Any = None

    async def __aenter__(self) -> Fetcher:
        self._pool = _core().AsyncConnectionPool(
            ssl_context=await asyncio.to_thread(_tls_context),
            max_connections=None,  # limited by the slots
            keepalive_expiry=5.0,
            network_backend=PinnedNetwork(self.guard, _core().AnyIOBackend()),
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._pool.aclose()

    async def get(
        self,
        url: str | httpx.URL,
        *,
        types: Sequence[str] = PAGE_TYPES,
        permit: Permit | None = None,
        cut: int | None = None,
        allowance: Allowance | None = None,
    ) -> Fetched:
        """Fetch a URL and follow its redirects, each checked by the guard.

        Args:
            url: Address to fetch.
            types: Accepted content types; empty accepts any.
            permit: Awaited before every hop with the remaining time; may raise.
            cut: Maximum number of decoded bytes to read; the rest is ignored.
            allowance: Time for the whole chain. Defaults to the guard's ``page_seconds``; waiting
                for a slot does not count.

        Returns:
            The last response, whatever its status.

        Raises:
            SearchError: "blocked" if the guard refuses a hop, "transient" if the network fails.
        """
        at = self.guard.admit(url)
        allowance, core = allowance or Allowance(self.guard.page_seconds), _core()
        for _ in range(self.guard.max_redirects + 1):
            if permit is not None:
                await permit(at, allowance)
            try:
                async with self.slots.of(at.host), allowance.spend():
                    fetched = await self._once(at, types, cut)
            except (TimeoutError, core.TimeoutException) as error:
                raise SearchError(f"{shown(at)} took too long", kind="transient") from error
            except (core.NetworkError, core.ProtocolError, OSError) as error:
                raise PassingError(
                    f"{shown(at)} could not be read: {type(error).__name__}", kind="transient"
                ) from error
            location = fetched.headers.get("location")
            if not (300 <= fetched.status < 400 and location):
                return fetched
            at = self.guard.follow(at, location)
        most = self.guard.max_redirects
        raise SearchError(f"{shown(at)}: more than {most} redirects", kind="blocked")

    async def _once(self, at: httpx.URL, types: Sequence[str], cut: int | None) -> Fetched:
        target = _core().URL(scheme=at.scheme, host=at.raw_host, port=at.port, target=at.raw_path)
        request = {
            "headers": [
                ("Host", at.netloc),
                ("User-Agent", self.guard.user_agent.encode("utf-8")),
                ("Accept", ", ".join(types) or "*/*"),
                ("Accept-Encoding", "gzip"),
            ],
            "extensions": {
                "timeout": dict.fromkeys(("connect", "read", "write"), self.guard.read_seconds)
            },
        }
        async with self._pool.stream("GET", target, **request) as response:
            headers: httpx.Headers = _httpx().Headers(response.headers)
            answer = Fetched(at, response.status, headers)
            if not 200 <= response.status < 300:
                return answer
            try:
                _check_type(headers, types)
                meter = Meter(headers.get("content-encoding", ""), limits, cut)
                body = await read_body(response.aiter_stream(), meter)
            except SearchError as error:
                raise SearchError(f"{shown(at)}: {error}", kind=error.kind) from error
            return Fetched(at, response.status, headers, body)


def _check_type(headers: httpx.Headers, types: Sequence[str]) -> None:
    given = headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if types and given not in types:
        raise SearchError(f"its content type {given[:60]!r} is not read", kind="blocked")


@functools.cache
def _tls_context() -> Any:
    return _httpx().create_ssl_context()


def _httpx() -> Any:
    return require_extra("httpx", extra="web", feature="web pages")


@functools.cache
def _core() -> Any:
    return require_extra("httpcore", extra="web", feature="web pages")


T = TypeVar("T")
MAX_WAIT = 10.0
"""Longest ``Retry-After`` that is waited for, in seconds; a longer one ends the retries."""


def check_status(fetched: Fetched) -> Fetched:
    """Return a 2xx response unchanged; raise ``SearchError`` for any other."""
    status = fetched.status
    if 200 <= status < 300:
        return fetched
    message = f"{shown(fetched.url)} answered {status}"
    if status == 429 or status >= 500:
        raise PassingError(
            message,
            kind="quota" if status == 429 else "transient",
            after=retry_after(fetched.headers.get("retry-after")),
        )
    raise SearchError(
        message, kind={401: "auth", 403: "auth", 407: "auth", 451: "blocked"}.get(status, "empty")
    )


async def persist(call: Callable[[], Awaitable[T]], retries: int) -> T:
    """Await a call and retry it after each ``PassingError``.

    Args:
        call: The coroutine function to call.
        retries: Maximum number of further attempts.

    Returns:
        The result of the first attempt that succeeds.
    """
    tenacity = require_extra("tenacity", extra="web", feature="PageReader")
    backoff = tenacity.wait_exponential(multiplier=0.5, max=4.0) + tenacity.wait_random(0.0, 0.5)

    def pause(state: Any) -> float:
        after = state.outcome.exception().after
        return float(backoff(state) if after is None else after)

    retrying = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(retries + 1),
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, PassingError) and (error.after or 0.0) <= MAX_WAIT
        ),
        wait=pause,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await call()
    raise AssertionError("tenacity returns a result or raises")
