"""A folder of pages already read: one JSON file per URL, safe to share between processes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.web.pages._page import Page

FORMAT = 1
_OURS = re.compile(r"[0-9a-f]{64}\.json|fitrag-.*\.tmp")
_log = logging.getLogger(__name__)


class PageCache:
    """Keep pages in ``folder`` for ``expires_seconds``, at most ``max_bytes`` of them.

    Files are named by the SHA-256 of their URL and replaced in one step, so that readers in other
    processes see the old page or the new one. What is expired, or not as written, counts as
    absent. Past ``max_bytes`` the oldest go. Failures are not kept, except a robots.txt's refusal.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        expires_seconds: float = 86_400.0,
        max_bytes: int = 500_000_000,
    ) -> None:
        self._folder = Path(folder)
        if self._folder.exists() and not self._folder.is_dir():
            raise InputError.of("folder", given=str(folder), allowed="a folder, or an unused path")
        self._expires = check_number("expires_seconds", expires_seconds, low=0.0)
        self._max_bytes = check_whole("max_bytes", max_bytes, low=1)

    def __repr__(self) -> str:
        return f"PageCache({str(self._folder)!r}, expires_seconds={self._expires:g})"

    def get(self, url: str) -> Page | SearchError | None:
        """Give the page kept for ``url``, the refusal kept in its place, or None."""
        try:
            entry = json.loads(self._path(url).read_text(encoding="utf-8"))
            if not self._holds(entry, url):
                return None
            if entry["page"] is None:
                return SearchError(str(entry["refused"]), kind="blocked")
            return Page.from_dict(entry["page"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, url: str, page: Page) -> None:
        """Keep a page under ``url``; where the disk refuses, say so in the log and go on."""
        self._write(url, {"page": page.to_dict(), "refused": None})

    def put_refusal(self, url: str, message: str) -> None:
        """Keep that a site's robots.txt said no to ``url``, and the ``message`` of it."""
        self._write(url, {"page": None, "refused": message})

    def _path(self, url: str) -> Path:
        digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest}.json"

    def _holds(self, entry: Any, url: str) -> bool:
        age = time.time() - entry["stored_at"]
        fresh = -60.0 <= age < self._expires  # a clock may be a little ahead, not a year
        return bool(entry["format"] == FORMAT and entry["url"] == url and fresh)

    def _write(self, url: str, content: dict[str, object]) -> None:
        entry = {"format": FORMAT, "url": url, "stored_at": time.time(), **content}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._replace(self._path(url), json.dumps(entry).encode("ascii"))
            self._shrink()
        except OSError as error:
            _log.warning("a page is not cached in %s: %s", self._folder, error.strerror)

    def _replace(self, path: Path, content: bytes) -> None:
        handle, name = tempfile.mkstemp(prefix="fitrag-", suffix=".tmp", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _shrink(self) -> None:
        """Delete the oldest files of ours until nine tenths of the limit are left."""
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        if total <= self._max_bytes:
            return
        for _, size, path in files:
            if total <= 0.9 * self._max_bytes:
                return
            with suppress(OSError):  # another process may have been faster
                os.unlink(path)
            total -= size

    def _files(self) -> Iterator[tuple[float, int, str]]:
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        found = entry.stat()
                        yield found.st_mtime, found.st_size, entry.path
