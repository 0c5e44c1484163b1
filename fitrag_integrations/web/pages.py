"""Read web pages: fetched under the guard, cut into paragraphs, cleaned, kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated
from weakref import WeakKeyDictionary

from fitrag_integrations.core.checks import (
    Checked,
    Text,
    check_is,
    check_many,
    check_number,
    check_whole,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.http import finish
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import MissingExtraError, SearchError, raise_if, refuse_if
from fitrag_integrations.web.extract import extract
from fitrag_integrations.web.fetch import (
    Fetched,
    Fetcher,
    Robots,
    RobotsError,
    Slots,
    check_status,
    persist,
)
from fitrag_integrations.web.guard import NetworkGuard, shown


@dataclass(frozen=True, slots=True)
class Page(Record, Checked):
    """A web page that was read; its text is untrusted.

    Args:
        url: Requested address.
        final_url: Address after redirects.
        title: Title; may be blank.
        paragraphs: Cleaned paragraphs, in order.
        fetched_at: Time of the fetch in ISO 8601, UTC.
    """

    url: Text
    final_url: Text
    title: Text
    paragraphs: Annotated[tuple[str, ...], partial(check_many, kind=str)]
    fetched_at: Text

    @property
    def text(self) -> str:
        """The paragraphs, separated by blank lines."""
        return "\n\n".join(self.paragraphs)


FORMAT = 1
_OURS = re.compile(r"[0-9a-f]{64}\.json|\.fitrag-.*\.partial")
_log = logging.getLogger(__name__)


class PageCache:
    """Cache of pages on disk, safe to share between processes.

    One JSON file per URL, named by its SHA-256 and replaced atomically. Expired or damaged files
    count as absent. Failures are not cached, except a refusal by robots.txt.

    Args:
        folder: Folder of the files; created when needed.
        expires_seconds: Age at which a page expires.
        max_bytes: Maximum size of the folder; above it the oldest pages are deleted.

    Example:
        >>> reader = PageReader(cache=PageCache("pages", expires_seconds=3600))
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        expires_seconds: float = 86_400.0,
        max_bytes: int = 500_000_000,
    ) -> None:
        self._folder = Path(folder)
        refuse_if(
            self._folder.exists() and not self._folder.is_dir(),
            "folder",
            str(folder),
            "a folder, or an unused path",
        )
        self._expires = check_number("expires_seconds", expires_seconds, low=0.0)
        self._max_bytes = check_whole("max_bytes", max_bytes, low=1)

    def __repr__(self) -> str:
        return f"PageCache({str(self._folder)!r}, expires_seconds={self._expires:g})"

    def get(self, url: str) -> Page | SearchError | None:
        """Return the cached page of ``url``, its cached refusal by robots.txt, or None."""
        try:
            entry = json.loads(self._path(url).read_text(encoding="utf-8"))
            age = time.time() - entry["stored_at"]
            is_fresh = -60.0 <= age < self._expires  # clocks may differ by a little
            if entry["format"] != FORMAT or entry["url"] != url or not is_fresh:
                return None
            if entry["page"] is None:
                return SearchError(str(entry["refused"]), kind="blocked")
            return Page.from_dict(entry["page"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _path(self, url: str) -> Path:
        digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest}.json"

    def put(self, url: str, page: Page | SearchError) -> None:
        """Store a page, or a refusal by robots.txt; a disk error is only logged.

        Args:
            url: Requested address.
            page: The page to store, or the error to raise for the address.
        """
        read, refused = (page.to_dict(), None) if isinstance(page, Page) else (None, str(page))
        entry: dict[str, object] = {"format": FORMAT, "url": url, "stored_at": time.time()}
        entry |= {"page": read, "refused": refused}
        try:
            write_whole(self._path(url), json.dumps(entry))
            files = []
            with os.scandir(self._folder) as entries:
                for each in entries:
                    with suppress(OSError):
                        if _OURS.fullmatch(each.name) and each.is_file(follow_symlinks=False):
                            found = each.stat()
                            files.append((found.st_mtime, found.st_size, each.path))
            total = sum(size for _, size, _ in files)
            limit = 0.9 * self._max_bytes if total > self._max_bytes else total
            for _, size, path in sorted(files):  # the oldest first
                if total > limit:
                    with suppress(OSError):  # another process may have been faster
                        os.unlink(path)
                    total -= size
        except OSError as error:
            _log.warning("a page is not cached: %s", error)


EXTRACT_SECONDS = 20.0
LOGIN_CHARS = 600  # a page with a password field and less text than this is a login page
_LOGIN = re.compile(r"/(log|sign)[-_]?(in|on)\b|/sso\b|/oauth2?/|/session/new\b", re.IGNORECASE)


class PageReader:
    """Reader of web pages, many at a time; each becomes a ``Page`` or the error it failed with.

    A failed page is a ``SearchError``: "auth" for 401, 403 and login pages, "quota" for 429,
    "transient" for 5xx and the network, "blocked" if the guard, robots.txt or the content type
    forbids it, "empty" for other statuses and pages without text.

    Args:
        guard: Limits of what may be fetched. Defaults to ``NetworkGuard()``.
        cache: Cache of pages that were read. Defaults to none.
        max_concurrency: Maximum number of concurrent requests in one event loop.
        retries: Maximum number of retries of a page after a 429, a 5xx or a broken connection,
            after a short wait or the site's ``Retry-After``; one above ten seconds ends them.

    Raises:
        MissingExtraError: If the extra ``web`` is not installed.

    Example:
        >>> pages = PageReader(cache=PageCache("pages")).read(["https://en.wikipedia.org/wiki/Amarcord"])
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
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Slots] = WeakKeyDictionary()
        for module in ("httpx", "httpcore", "protego", "tenacity", "trafilatura"):
            require_extra(module, extra="web", feature="PageReader")

    def read(self, urls: Sequence[str]) -> list[Page | SearchError]:
        """Read pages and wait for them; inside a running event loop this blocks it."""
        given = check_many("urls", urls, str)
        return finish(lambda: self.aread(given))

    async def aread(self, urls: Sequence[str]) -> list[Page | SearchError]:
        """Read pages concurrently; one answer per URL, in order, each URL read once."""
        given = check_many("urls", urls, str)
        loop = asyncio.get_running_loop()
        with self._lock:  # drop the limits of closed loops
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            slots = self._loops.setdefault(loop, Slots(self._max_concurrency, self._guard.per_host))
        async with Fetcher(self._guard, slots) as fetcher, asyncio.TaskGroup() as group:
            tasks = {
                url: group.create_task(self._read_page(url, fetcher))
                for url in dict.fromkeys(given)
            }
        return [tasks[url].result() for url in given]

    async def _read_page(self, url: str, fetcher: Fetcher) -> Page | SearchError:
        """Read one page: from the cache, else fetched, extracted, checked and kept."""
        guard, cache = self._guard, self._cache
        permit = partial(self._robots.permit, fetcher=fetcher) if guard.robots else None
        try:
            at = guard.admit(url)
            known = None if cache is None else await asyncio.to_thread(cache.get, str(at))
            if isinstance(known, SearchError) and guard.robots:
                return known
            if isinstance(known, Page):
                guard.admit(known.final_url)  # which it may refuse by now
                return replace(known, url=url)

            async def fetch() -> Fetched:
                return check_status(await fetcher.get(at, permit=permit))

            fetched = await persist(fetch, self._retries)
            where = shown(fetched.url)
            content_type = fetched.headers.get("content-type", "")
            async with fetcher.slots.extracting:
                try:
                    async with asyncio.timeout(EXTRACT_SECONDS):
                        found = await asyncio.to_thread(extract, fetched.body, content_type)
                except MissingExtraError:
                    raise
                except Exception as error:  # of a parser
                    message = f"{where} could not be parsed: {type(error).__name__}"
                    raise SearchError(message, kind="empty") from error
            length = sum(map(len, found.paragraphs))
            is_sent_to_login = _LOGIN.search(fetched.url.path) and not _LOGIN.search(at.path)
            raise_if(
                is_sent_to_login or (found.asks_password and length < LOGIN_CHARS),
                SearchError,
                f"{where} is a login page",
                kind="auth",
            )
            raise_if(
                not found.paragraphs, SearchError, f"{where} has no text to read", kind="empty"
            )
        except SearchError as error:
            if cache is not None and isinstance(error, RobotsError):
                await asyncio.to_thread(cache.put, str(at), error)
            return error.with_traceback(None)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        page = Page(url, str(fetched.url), found.title, found.paragraphs, now)
        if cache is not None:
            await asyncio.to_thread(cache.put, str(at), page)
        return page
