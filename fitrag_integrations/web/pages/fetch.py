"""Fetch a URL under a guard: by hand, hop by hop, each connection to a checked address."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import read_body
from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.pages._slots import Slots
from fitrag_integrations.web.pages.guard import NetworkGuard, shown

if TYPE_CHECKING:
    import httpcore
    import httpx

PAGE_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
Permit: TypeAlias = "Callable[[httpx.URL, Allowance], Awaitable[None]]"


@dataclass
class Allowance:
    """Hold the seconds that are ``left`` for a page, its redirects and their robots.txt."""

    left: float

    @asynccontextmanager
    async def spend(self) -> AsyncIterator[None]:
        """Spend what the block takes; raise ``TimeoutError`` where that is more than is left."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self.left):
                yield
        finally:
            self.left -= time.monotonic() - started


@dataclass(frozen=True)
class Fetched:
    """Hold the last answer of a chain of redirects; ``body`` is read where the status is 2xx."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes = b""


class PassingError(SearchError):
    """Mark a failure worth another try, ``after`` so many seconds where the site said so."""

    def __init__(self, message: str, *, kind: str, after: float | None = None) -> None:
        super().__init__(message, kind=kind)
        self.after = after


class PinnedNetwork:
    """Connect to the addresses the guard has checked, and to nothing else.

    An httpcore network backend: name lookup, check and connection are one step, so there is no
    moment between them for the name to change. TLS and the Host header keep the name.
    """

    def __init__(self, guard: NetworkGuard, network: httpcore.AsyncNetworkBackend) -> None:
        self._guard = guard
        self._network = network

    async def connect_tcp(
        self, host: str, port: int, **options: Any
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers."""
        *spare, last = await self._guard.addresses(host)
        for address in spare:
            try:
                return await self._network.connect_tcp(address, port, **options)
            except (_core().ConnectError, _core().ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, **options)

    async def connect_unix_socket(self, path: str, **options: object) -> object:
        """Refuse: a page has no business with a socket of this machine."""
        raise SearchError("unix sockets are not fetched from", kind="blocked")

    async def sleep(self, seconds: float) -> None:
        """Sleep as the network below does."""
        await self._network.sleep(seconds)


class Fetcher:
    """Fetch within one event loop; an async context manager that closes its connections."""

    def __init__(self, guard: NetworkGuard, slots: Slots) -> None:
        self._guard = guard
        self._slots = slots
        self._pool: Any = None

    async def __aenter__(self) -> Fetcher:
        network = PinnedNetwork(self._guard, _core().AnyIOBackend())
        self._pool = _core().AsyncConnectionPool(
            ssl_context=await asyncio.to_thread(_tls),
            max_connections=None,  # the slots limit them
            keepalive_expiry=5.0,
            network_backend=network,
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._pool.aclose()

    @property
    def page_seconds(self) -> float:
        """Give the time that a page is allowed."""
        return self._guard.page_seconds

    def alone(self, key: str) -> asyncio.Lock:
        """Give the lock of a key, shared by all who fetch in this loop."""
        return self._slots.alone(key)

    async def get(
        self,
        url: str | httpx.URL,
        *,
        types: Sequence[str] = PAGE_TYPES,
        permit: Permit | None = None,
        cut: int | None = None,
        allowance: Allowance | None = None,
    ) -> Fetched:
        """Get a URL, following redirects by hand.

        ``allowance`` is the time for all of it, the guard's ``page_seconds`` where none is given;
        waiting for a turn is not counted. ``permit`` is awaited before every hop, with what is
        left of the time, and may raise; without ``types`` any content type
        is taken. Gives answers of any status; raises ``SearchError`` where the guard refuses a
        hop ("blocked") or the network fails ("transient").
        """
        at = self._guard.admit(url)
        allowance = allowance or Allowance(self._guard.page_seconds)
        for _ in range(self._guard.max_redirects + 1):
            if permit is not None:
                await permit(at, allowance)
            async with self._slots.of(at.host):
                fetched = await self._within(allowance, at, types, cut)
            location = fetched.headers.get("location")
            if not (300 <= fetched.status < 400 and location):
                return fetched
            at = self._guard.follow(at, location)
        most = self._guard.max_redirects
        raise SearchError(f"{shown(at)}: more than {most} redirects", kind="blocked")

    async def _within(
        self, allowance: Allowance, at: httpx.URL, types: Sequence[str], cut: int | None
    ) -> Fetched:
        core = _core()
        try:
            async with allowance.spend():
                return await self._once(at, types, cut)
        except (TimeoutError, core.TimeoutException) as error:
            raise SearchError(f"{shown(at)} took too long", kind="transient") from error
        except (core.NetworkError, core.ProtocolError, OSError) as error:
            message = f"{shown(at)} could not be read: {type(error).__name__}"
            raise PassingError(message, kind="transient") from error

    async def _once(self, at: httpx.URL, types: Sequence[str], cut: int | None) -> Fetched:
        target = _core().URL(scheme=at.scheme, host=at.raw_host, port=at.port, target=at.raw_path)
        asked = {"headers": _headers(at, self._guard, types), "extensions": _timeouts(self._guard)}
        async with self._pool.stream("GET", target, **asked) as response:
            headers: httpx.Headers = _httpx().Headers(response.headers)
            answer = Fetched(at, response.status, headers)
            if not 200 <= response.status < 300:
                return answer
            try:
                _check_type(headers, types)
                encoding = headers.get("content-encoding", "")
                chunks = response.aiter_stream()
                body = await read_body(chunks, encoding=encoding, limits=self._guard, cut=cut)
            except SearchError as error:
                raise SearchError(f"{shown(at)}: {error}", kind=error.kind) from error
            return Fetched(at, response.status, headers, body)


def _headers(
    at: httpx.URL, guard: NetworkGuard, types: Sequence[str]
) -> list[tuple[str, str | bytes]]:
    return [
        ("Host", at.netloc),
        ("User-Agent", guard.user_agent.encode("utf-8")),
        ("Accept", ", ".join(types) or "*/*"),
        ("Accept-Encoding", "gzip"),
    ]


def _timeouts(guard: NetworkGuard) -> dict[str, dict[str, float]]:
    return {"timeout": dict.fromkeys(("connect", "read", "write"), guard.read_seconds)}


def _check_type(headers: httpx.Headers, types: Sequence[str]) -> None:
    given = headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if types and given not in types:
        raise SearchError(f"its content type {given[:60]!r} is not read", kind="blocked")


@functools.cache
def _tls() -> Any:
    return _httpx().create_ssl_context()


def _httpx() -> Any:
    return require_extra("httpx", extra="web", feature="web pages")


@functools.cache
def _core() -> Any:
    return require_extra("httpcore", extra="web", feature="web pages")
