"""Read web pages: fetched under the guard, cut into paragraphs, cleaned, kept on disk."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from fitrag_integrations.core.checks import check_is, check_many, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import MissingExtraError, SearchError
from fitrag_integrations.web.pages._extracting import Extracted, extract
from fitrag_integrations.web.pages._page import Page
from fitrag_integrations.web.pages._retrying import check_status, persist
from fitrag_integrations.web.pages._slots import Slots
from fitrag_integrations.web.pages.cache import PageCache
from fitrag_integrations.web.pages.fetch import Allowance, Fetched, Fetcher
from fitrag_integrations.web.pages.guard import NetworkGuard, shown
from fitrag_integrations.web.pages.robots import Robots, RobotsError

if TYPE_CHECKING:
    import httpx

EXTRACT_SECONDS = 20.0
EXTRACTIONS = 1  # threads at once: they share one interpreter, and the loop wants its turn
LOGIN_CHARS = 600  # a page with a password field and less text than this is a login page
_LOGIN = re.compile(r"/(log|sign)[-_]?(in|on)\b|/sso\b|/oauth2?/|/session/new\b", re.IGNORECASE)


class PageReader:
    """Read pages, many at a time; each comes back as a `Page` or as the error that befell it.

    ``guard`` sets what may be fetched, ``cache`` keeps what was read. ``max_concurrency`` requests
    run at once in one event loop, whoever makes them. ``retries`` is how often a page is tried
    again after a 429, a 5xx or a broken connection, after a short wait or the ``Retry-After`` the
    site asks for; one of more than ten seconds is not waited for.

    A page that did not come is a ``SearchError``: "auth" for 401, 403 and login pages, "quota" for
    429, "transient" for 5xx and the network, "blocked" for what the guard, robots.txt or the
    content type forbids, "empty" for other statuses and pages without text.
    """

    def __init__(
        self,
        guard: NetworkGuard | None = None,
        cache: PageCache | None = None,
        *,
        max_concurrency: int = 8,
        retries: int = 1,
    ) -> None:
        self._guard = NetworkGuard() if guard is None else check_is("guard", guard, NetworkGuard)
        self._cache = cache if cache is None else check_is("cache", cache, PageCache)
        self._max_concurrency = check_whole("max_concurrency", max_concurrency, low=1)
        self._retries = check_whole("retries", retries, low=0, high=10)
        self._robots = Robots(self._retries)
        self._lock = threading.Lock()
        self._loops: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Slots, asyncio.Semaphore]
        ] = WeakKeyDictionary()
        for module in ("httpx", "httpcore", "tenacity", "trafilatura"):
            require_extra(module, extra="web", feature="PageReader")

    def read(self, urls: Sequence[str]) -> list[Page | SearchError]:
        """Read pages and wait for them; also where an event loop runs, which then stands still."""
        given = check_many("urls", urls, str)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.aread(given))
        with ThreadPoolExecutor(1, thread_name_prefix="fitrag-pages") as thread:
            context = copy_context()
            return thread.submit(context.run, lambda: asyncio.run(self.aread(given))).result()

    async def aread(self, urls: Sequence[str]) -> list[Page | SearchError]:
        """Read pages side by side; one answer per URL, in order, each URL read once."""
        given = check_many("urls", urls, str)
        slots, turns = self._limits()
        async with Fetcher(self._guard, slots) as fetcher, asyncio.TaskGroup() as group:
            tasks = {
                url: group.create_task(self._page(url, fetcher, turns))
                for url in dict.fromkeys(given)
            }
        return [tasks[url].result() for url in given]

    def _limits(self) -> tuple[Slots, asyncio.Semaphore]:
        """Give the limits of the running loop; a semaphore holds its loop, so closed ones go."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            if loop not in self._loops:
                slots = Slots(self._max_concurrency, self._guard.per_host)
                self._loops[loop] = slots, asyncio.Semaphore(EXTRACTIONS)
            return self._loops[loop]

    async def _page(
        self, url: str, fetcher: Fetcher, turns: asyncio.Semaphore
    ) -> Page | SearchError:
        try:
            at = self._guard.admit(url)
            return await self._kept(at, url) or await self._new(at, url, fetcher, turns)
        except SearchError as error:
            return error.with_traceback(None)

    async def _kept(self, at: httpx.URL, url: str) -> Page | None:
        """Look into the cache; what the guard of today would refuse is not taken from it."""
        if self._cache is None:
            return None
        found = await asyncio.to_thread(self._cache.get, str(at))
        if isinstance(found, SearchError):
            if self._guard.robots:
                raise found
            return None
        if found is None:
            return None
        self._guard.admit(found.final_url)
        return replace(found, url=url)

    async def _new(
        self, at: httpx.URL, url: str, fetcher: Fetcher, turns: asyncio.Semaphore
    ) -> Page:
        try:
            fetched = await persist(lambda: self._fetched(at, fetcher), self._retries)
        except RobotsError as error:
            if self._cache is not None and error.lasting:
                await asyncio.to_thread(self._cache.put_refusal, str(at), str(error))
            raise
        found = await _extracted(fetched, turns)
        _check_found(found, asked=at, fetched=fetched)
        page = Page(url, str(fetched.url), found.title, found.paragraphs, _now())
        if self._cache is not None:
            await asyncio.to_thread(self._cache.put, str(at), page)
        return page

    async def _fetched(self, at: httpx.URL, fetcher: Fetcher) -> Fetched:
        async def permit(hop: httpx.URL, allowance: Allowance) -> None:
            await self._robots.permit(hop, fetcher, allowance)

        return check_status(await fetcher.get(at, permit=permit if self._guard.robots else None))


async def _extracted(fetched: Fetched, turns: asyncio.Semaphore) -> Extracted:
    """Extract in a thread; whatever a strange page does to the parser is that page's failure."""
    content_type = fetched.headers.get("content-type", "")
    async with turns:
        try:
            async with asyncio.timeout(EXTRACT_SECONDS):
                return await asyncio.to_thread(extract, fetched.body, content_type)
        except MissingExtraError:
            raise
        except Exception as error:
            message = f"{shown(fetched.url)} could not be parsed: {type(error).__name__}"
            raise SearchError(message, kind="empty") from error


def _check_found(found: Extracted, *, asked: httpx.URL, fetched: Fetched) -> None:
    where = shown(fetched.url)
    is_sent_to_login = bool(_LOGIN.search(fetched.url.path)) and not _LOGIN.search(asked.path)
    is_form = found.asks_password and sum(map(len, found.paragraphs)) < LOGIN_CHARS
    if is_sent_to_login or is_form:
        raise SearchError(f"{where} is a login page", kind="auth")
    if not found.paragraphs:
        raise SearchError(f"{where} has no text to read", kind="empty")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
