"""Fetch a URL under a guard, hop by hop: what robots.txt allows, from checked addresses."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import WeakValueDictionary

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.http import Meter, read_body, retry_after
from fitrag_integrations.errors import SearchError, raise_if
from fitrag_integrations.web.guard import AGENT, NetworkGuard, shown

if TYPE_CHECKING:
    import httpcore
    import httpx


class Slots:
    """Limits of one event loop: requests at once, in total and per host, and extractions."""

    def __init__(self, total: int, per_host: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._per_host = per_host
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.extracting = asyncio.Semaphore(1)  # threads share an interpreter with the event loop

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
        from httpcore import ConnectError, ConnectTimeout

        *spare, last = await self._guard.addresses(host)
        for address in spare:
            try:
                return await self._network.connect_tcp(address, port, **options)
            except (ConnectError, ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, **options)

    async def connect_unix_socket(self, path: str, **options: object) -> object:
        """Refuse the connection: a page must not reach a socket of this machine."""
        raise SearchError("unix sockets are not fetched from", kind="blocked")


class Fetcher:
    """HTTP client for one event loop; an async context manager that closes its connections."""

    def __init__(self, guard: NetworkGuard, slots: Slots) -> None:
        self.guard, self.slots = guard, slots
        self._pool: Any = None

    async def __aenter__(self) -> Fetcher:
        import httpcore

        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=await asyncio.to_thread(_tls_context),
            max_connections=None,  # limited by the slots
            keepalive_expiry=5.0,
            network_backend=cast(Any, PinnedNetwork(self.guard, httpcore.AnyIOBackend())),
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
        import httpcore

        at = self.guard.admit(url)
        allowance = allowance or Allowance(self.guard.page_seconds)
        for _ in range(self.guard.max_redirects + 1):
            if permit is not None:
                await permit(at, allowance)
            try:
                async with self.slots.of(at.host), allowance.spend():
                    fetched = await self._once(at, types, cut)
            except (TimeoutError, httpcore.TimeoutException) as error:
                raise SearchError(f"{shown(at)} took too long", kind="transient") from error
            except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
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
        import httpcore
        import httpx

        guard = self.guard
        async with self._pool.stream(
            "GET",
            httpcore.URL(scheme=at.scheme, host=at.raw_host, port=at.port, target=at.raw_path),
            headers=[
                ("Host", at.netloc),
                ("User-Agent", guard.user_agent.encode("utf-8")),
                ("Accept", ", ".join(types) or "*/*"),
                ("Accept-Encoding", "gzip"),
            ],
            extensions={"timeout": dict.fromkeys(("connect", "read", "write"), guard.read_seconds)},
        ) as response:
            headers, body = httpx.Headers(response.headers), b""
            if 200 <= response.status < 300:
                try:
                    _check_type(headers, types)
                    meter = Meter(headers.get("content-encoding", ""), guard, cut)
                    body = await read_body(response.aiter_stream(), meter)
                except SearchError as error:
                    raise SearchError(f"{shown(at)}: {error}", kind=error.kind) from error
            return Fetched(at, response.status, headers, body)


def _check_type(headers: httpx.Headers, types: Sequence[str]) -> None:
    given = headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    raise_if(
        types and given not in types,
        SearchError,
        f"its content type {given[:60]!r} is not read",
        kind="blocked",
    )


@functools.cache
def _tls_context() -> Any:
    import httpx

    return httpx.create_ssl_context()


MAX_WAIT = 10.0
"""Longest ``Retry-After`` that is waited for, in seconds; a longer one ends the retries."""
_KINDS = {401: "auth", 403: "auth", 407: "auth", 429: "quota", 451: "blocked"}


def check_status(fetched: Fetched) -> Fetched:
    """Return a 2xx response unchanged; raise ``SearchError`` for any other."""
    status = fetched.status
    if 200 <= status < 300:
        return fetched
    kind: Any = _KINDS.get(status, "transient" if status >= 500 else "empty")
    message = f"{shown(fetched.url)} answered {status}"
    if kind in ("quota", "transient"):
        after = retry_after(fetched.headers.get("retry-after"))
        raise PassingError(message, kind=kind, after=after)
    raise SearchError(message, kind=kind)


async def persist(call: Callable[[], Awaitable[T]], retries: int) -> T:
    """Await a call and retry it after each ``PassingError``.

    Args:
        call: The coroutine function to call.
        retries: Maximum number of further attempts.

    Returns:
        The result of the first attempt that succeeds.
    """
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=0.5, max=4.0) + tenacity.wait_random(0.0, 0.5)

    def pause(state: Any) -> float:
        after = state.outcome.exception().after
        return float(backoff(state) if after is None else after)

    return await tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(retries + 1),
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, PassingError) and (error.after or 0.0) <= MAX_WAIT
        ),
        wait=pause,
        reraise=True,
    )(call)


ROBOTS_BYTES = 512_000  # RFC 9309, section 2.5
KEPT = 500  # number of sites whose rules are remembered
DAY, MINUTE = 86_400.0, 60.0
_AGENT_LINE = re.compile(r"\A\s*user[-\s]*agent[\s:]+([^\s/#]*).*", re.IGNORECASE | re.DOTALL)


def parse_rules(text: str, agent: str = AGENT) -> Any:
    """Parse a robots.txt for one user agent; ``can_fetch(url, agent)`` of the result decides.

    Groups of other agents are merged into one: Protego copies each rule to all agents of its group,
    so a file of many agents and many rules would cost their product.
    """
    known = (agent.lower(), "*")

    def one(line: re.Match[str]) -> str:
        return f"user-agent: {line[1].lower() if line[1].lower() in known else '?'}"

    lines = [_AGENT_LINE.sub(one, line) for line in text.splitlines()]
    protego = require_extra("protego", extra="web", feature="PageReader")
    return protego.Protego.parse("\n".join(lines))


class RobotsError(SearchError):
    """Page that robots.txt closes."""


class Robots:
    """Cache of each site's robots.txt (RFC 9309), fetched once a day and parsed by Protego.

    ``Crawl-delay`` and ``Sitemap`` are ignored. A robots.txt that answers 5xx, or cannot be fetched
    after ``retries`` retries, closes its site for a minute.
    """

    def __init__(self, retries: int = 0) -> None:
        self._retries = retries
        self._known: dict[str, tuple[float, Any]] = {}

    async def permit(self, at: httpx.URL, allowance: Allowance, fetcher: Fetcher) -> None:
        """Raise ``RobotsError`` if the site does not allow the page to be read.

        The time for robots.txt is subtracted from the page's ``allowance``. If it cannot be
        fetched, its ``SearchError`` is raised.
        """
        site = f"{at.scheme}://{at.netloc.decode('ascii')}"
        async with fetcher.slots.alone(site):
            until, rules = self._known.get(site, (0.0, None))
            if until <= time.monotonic():
                rules = await self._asked(site, fetcher, allowance)
        if isinstance(rules, SearchError):
            raise SearchError(str(rules), kind=rules.kind)  # a new one for each page
        raise_if(
            not await asyncio.to_thread(rules.can_fetch, str(at), AGENT),
            RobotsError,
            f"{shown(at)} is not fetched: its robots.txt asks robots not to read it",
            kind="blocked",
        )

    async def _asked(self, site: str, fetcher: Fetcher, allowance: Allowance) -> Any:
        """Return the site's rules, or the error that they cannot be read."""
        was_short = allowance.left < fetcher.guard.page_seconds / 2

        async def get() -> Fetched:
            url, cut = f"{site}/robots.txt", ROBOTS_BYTES
            return await fetcher.get(url, types=(), cut=cut, allowance=allowance)

        try:
            found = await persist(get, self._retries)
            raise_if(
                found.status >= 500,  # of other refusals there is no body, and so no rule
                SearchError,
                f"the robots.txt of {site} cannot be read",
                kind="blocked",
            )
            text = found.body.decode("utf-8-sig", "replace")
            answer, open_for = await asyncio.to_thread(parse_rules, text), DAY
        except SearchError as error:
            answer, open_for = SearchError(str(error), kind=error.kind), MINUTE
            if was_short and allowance.left <= 0:
                return answer  # the page had no time left: no reason to close the site
        self._known.pop(site, None)
        self._known[site] = time.monotonic() + open_for, answer
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return answer
