"""Fetch a URL under a guard: by hand, hop by hop, each connection to a checked address."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fitrag_integrations._extras import require_extra
from fitrag_integrations.errors import SearchError
from fitrag_integrations.web._body import read_body
from fitrag_integrations.web._slots import Slots
from fitrag_integrations.web.guard import NetworkGuard, shown

if TYPE_CHECKING:
    import httpx

PAGE_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
Permit: TypeAlias = "Callable[[httpx.URL], Awaitable[None]]"


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

    def __init__(self, guard: NetworkGuard, network: Any) -> None:
        self._guard = guard
        self._network = network

    async def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        """Connect to the first address that answers."""
        *spare, last = await self._guard.addresses(host)
        for address in spare:
            try:
                return await self._network.connect_tcp(address, port, **options)
            except (_core().ConnectError, _core().ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, **options)

    async def connect_unix_socket(self, path: str, **options: Any) -> Any:
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
    ) -> Fetched:
        """Get a URL, following redirects by hand.

        ``permit`` is awaited before every hop and may raise; without ``types`` any content type
        is taken. Gives answers of any status; raises ``SearchError`` where the guard refuses a
        hop ("blocked") or the network fails ("transient").
        """
        at, left = self._guard.admit(url), self._guard.page_seconds
        for _ in range(self._guard.max_redirects + 1):
            if permit is not None:
                await permit(at)
            async with self._slots.of(at.host):
                started = time.monotonic()
                fetched = await self._within(left, at, types, cut)
            left -= time.monotonic() - started
            location = fetched.headers.get("location")
            if not (300 <= fetched.status < 400 and location):
                return fetched
            at = self._guard.follow(at, location)
        most = self._guard.max_redirects
        raise SearchError(f"{shown(at)}: more than {most} redirects", kind="blocked")

    async def _within(
        self, left: float, at: httpx.URL, types: Sequence[str], cut: int | None
    ) -> Fetched:
        core = _core()
        try:
            async with asyncio.timeout(left):
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
                body = await read_body(chunks, encoding=encoding, guard=self._guard, cut=cut)
            except SearchError as error:
                raise SearchError(f"{shown(at)}: {error}", kind=error.kind) from error
            return Fetched(at, response.status, headers, body)


def _headers(at: httpx.URL, guard: NetworkGuard, types: Sequence[str]) -> list[tuple[str, Any]]:
    return [
        ("Host", at.netloc),
        ("User-Agent", guard.user_agent.encode("utf-8")),
        ("Accept", ", ".join(types) or "*/*"),
        ("Accept-Encoding", "gzip"),
    ]


def _timeouts(guard: NetworkGuard) -> dict[str, Any]:
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
