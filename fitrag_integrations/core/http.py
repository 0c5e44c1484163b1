"""Read HTTP responses within limits of size and time, parse Retry-After, finish coroutines."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterable, Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Thread
from typing import Any, Protocol, TypeVar

from fitrag_integrations.errors import SearchError

T = TypeVar("T")
_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{0,10})?", re.ASCII)
_LONGEST = 64  # characters: a date takes 29
STEP = 256_000
RATIO_FROM = 1_000_000
"""From how many decoded bytes on the ratio is looked at: small pages may well repeat themselves."""


class Limits(Protocol):
    """Limits of a body: as sent, after decompression, and the ratio of both."""

    @property
    def max_bytes(self) -> int: ...
    @property
    def max_decoded_bytes(self) -> int: ...
    @property
    def max_ratio(self) -> float: ...


@dataclass(frozen=True)
class ReplyLimits:
    """Limits for responses of a configured server, which are JSON."""

    max_bytes: int = 20_000_000
    max_decoded_bytes: int = 50_000_000
    max_ratio: float = 100.0


def read_whole(read: Callable[[int], bytes], *, encoding: str, limits: Limits) -> bytes:
    """Read a blocking ``read(size)`` to its end; raises as ``read_body`` does."""
    meter = _Meter(encoding, limits, None)
    while chunk := read(STEP):
        meter.take(chunk)
    return meter.end()


async def read_body(
    chunks: AsyncIterable[bytes], *, encoding: str, limits: Limits, cut: int | None
) -> bytes:
    """Read a body to its end, or to ``cut`` decoded bytes.

    Args:
        chunks: Body as it arrives.
        encoding: The Content-Encoding header.
        limits: Limits, checked after each step of decompression.
        cut: Number of decoded bytes after which reading stops. None reads all.

    Raises:
        SearchError: "blocked" for a body that is too large or in another encoding than gzip,
            "transient" for one that breaks off.
    """
    meter = _Meter(encoding, limits, cut)
    async for chunk in chunks:
        meter.take(chunk)
        if meter.full:
            break
    return meter.end()


class _Meter:
    def __init__(self, encoding: str, limits: Limits, cut: int | None) -> None:
        coding = encoding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise SearchError("its encoding is one we did not ask for", kind="blocked")
        self._unzip = zlib.decompressobj(31) if "gzip" in coding else None
        self._limits = limits
        self._cut = cut
        self._body = bytearray()
        self._wire = 0

    @property
    def full(self) -> bool:
        """Whether enough was read."""
        return self._cut is not None and len(self._body) >= self._cut

    def take(self, chunk: bytes) -> None:
        """Add one chunk as sent, and check the limits after every step of decompression."""
        self._wire += len(chunk)
        _hold(self._wire, self._limits.max_bytes, "is larger than allowed")
        while chunk and not self.full:
            piece, chunk = self._unpacked(chunk)
            self._body += piece
            self._check()

    def end(self) -> bytes:
        """Return what was read."""
        if self._unzip is not None and not self.full:
            self._body += self._unzip.flush()
            self._check()
            if self._wire and not self._unzip.eof:
                raise SearchError("its body breaks off", kind="transient")
        return bytes(self._body[: self._cut])

    def _unpacked(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Return at most ``STEP`` decompressed bytes, and what is left to decompress."""
        if self._unzip is None:
            return chunk, b""
        if self._unzip.eof:
            return b"", b""
        try:
            return self._unzip.decompress(chunk, STEP), self._unzip.unconsumed_tail
        except zlib.error as error:
            raise SearchError("its body cannot be unpacked", kind="transient") from error

    def _check(self) -> None:
        size = len(self._body)
        _hold(size, self._limits.max_decoded_bytes, "is larger than allowed once unpacked")
        if size > RATIO_FROM:
            most = int(self._limits.max_ratio * self._wire)
            _hold(size, most, "unpacks to more than its size allows")


def _hold(size: int, most: int, why: str) -> None:
    if size > most:
        raise SearchError(f"it {why} ({most} bytes)", kind="blocked")


async def read_reply(client: Any, method: str, url: str, *, seconds: float, **options: Any) -> Any:
    """Send a request with an httpx client and read its response within ``seconds`` and
    `ReplyLimits`.

    Args:
        client: An ``httpx.AsyncClient``.
        method: HTTP method.
        url: Address.
        seconds: Time for the whole response, so that one that drips in does not last forever.
        **options: Keyword arguments of ``client.stream``.

    Returns:
        An ``httpx.Response`` with its content.

    Raises:
        httpx.ReadTimeout: Past the deadline.
        httpx.DecodingError: Past a limit.
        httpx.ReadError: If the body breaks off.
    """
    import httpx

    headers = {**options.pop("headers", {}), "Accept-Encoding": "gzip"}
    asking = client.stream(method, url, headers=headers, **options)
    try:
        async with asyncio.timeout(seconds), asking as reply:
            encoding = reply.headers.get("content-encoding", "")
            chunks = reply.aiter_raw()
            body = await read_body(chunks, encoding=encoding, limits=ReplyLimits(), cut=None)
            kept = [(k, v) for k, v in reply.headers.multi_items() if k not in _OF_THE_WIRE]
            return httpx.Response(reply.status_code, headers=kept, content=body)
    except TimeoutError:
        raise httpx.ReadTimeout(f"no whole answer in {seconds:g} s") from None
    except SearchError as error:
        kind = httpx.DecodingError if error.kind == "blocked" else httpx.ReadError
        raise kind(str(error)) from None


_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")


def retry_after(value: str | None) -> float | None:
    """Return the seconds to wait (RFC 9110, section 10.2.3), at least 0; None for an invalid value.

    Seconds may have decimals, which some services send. A date without a zone is in UTC.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text) if len(text) <= _LONGEST else None
    except (ValueError, TypeError, OverflowError):
        moment = None
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def finish(make: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine to its end from any thread, also one whose event loop is running.

    It gets an event loop and a thread of its own, and the caller's context; the caller's loop and
    loop policy are not touched. An interruption of the wait cancels the coroutine.
    """
    outcome: Future[T] = Future()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []
    context, interrupted = copy_context(), Event()

    async def run() -> T:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        if interrupted.is_set():
            raise asyncio.CancelledError
        return await make()

    def work() -> None:
        try:
            outcome.set_result(context.run(lambda: asyncio.run(run())))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            outcome.set_exception(error)

    thread = Thread(target=work, name="fitrag-await")
    try:
        thread.start()
        while not outcome.done():
            wait([outcome], timeout=0.5)  # a signal as the wait begins is heard after it
        return outcome.result()
    except BaseException:
        interrupted.set()
        for loop, task in running:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(task.cancel) if task is not None else None
        raise
    finally:
        if thread.ident is not None:
            thread.join()
