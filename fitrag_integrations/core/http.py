"""Read HTTP responses within size limits, parse Retry-After, run coroutines one and many."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Thread
from typing import Any, cast

from fitrag_integrations.core.generic import Q, T
from fitrag_integrations.core.jsonl import check_size, loads
from fitrag_integrations.errors import SearchError, raise_if

_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{0,10})?", re.ASCII)
STEP = 256_000
RATIO_FROM = 1_000_000
"""From how many decoded bytes on the ratio is looked at: small pages may well repeat themselves."""
VALUES, DEPTH = 500_000, 100  # of the JSON of a reply: 4,096 tokens with 20 others have 90,000


@dataclass(frozen=True)
class Limits:
    """Limits of a body: as sent, after decompression, and the ratio of both.

    The defaults are for the replies of a configured server: 5,000 scores take 400 kB.
    """

    max_bytes: int = 12 << 20
    max_decoded_bytes: int = 12 << 20
    max_ratio: float = 100.0


class Meter:
    """Body of a reply, decompressed as it arrives and never beyond its limits.

    Args:
        encoding: The Content-Encoding header.
        limits: Limits, checked after each step of decompression.
        cut: Number of decoded bytes after which reading stops. None reads all.

    Raises:
        SearchError: "blocked" for a body that is too large or has an encoding other than gzip,
            "transient" for an incomplete one.
    """

    def __init__(self, encoding: str, limits: Limits, cut: int | None = None) -> None:
        coding = encoding.strip().lower()
        raise_if(
            coding not in ("", "identity", "gzip", "x-gzip"),
            SearchError,
            "its encoding is one we did not ask for",
            kind="blocked",
        )
        self._unzip = zlib.decompressobj(31) if "gzip" in coding else None
        self._limits, self._cut = limits, cut
        self._body, self._wire = bytearray(), 0

    @property
    def full(self) -> bool:
        """Whether enough has been read."""
        return self._cut is not None and len(self._body) >= self._cut

    def take(self, chunk: bytes) -> None:
        """Add one chunk as received."""
        self._wire += len(chunk)
        _hold(self._wire, self._limits.max_bytes, "is larger than allowed")
        while chunk and not self.full:
            if self._unzip is None:
                piece, chunk = chunk, b""
            elif self._unzip.eof:
                return
            else:
                try:
                    piece, chunk = self._unzip.decompress(chunk, STEP), self._unzip.unconsumed_tail
                except zlib.error as error:
                    raise SearchError("its body cannot be unpacked", kind="transient") from error
            self._add(piece)

    def end(self) -> bytes:
        """Return what was read."""
        if self._unzip is not None and not self.full:
            self._add(self._unzip.flush())
            raise_if(
                self._wire and not self._unzip.eof,
                SearchError,
                "its body breaks off",
                kind="transient",
            )
        return bytes(self._body[: self._cut])

    def _add(self, piece: bytes) -> None:
        self._body += piece
        size, most = len(self._body), self._limits.max_decoded_bytes
        _hold(size, most, "is larger than allowed once unpacked")
        if size > RATIO_FROM:
            most = int(self._limits.max_ratio * self._wire)
            _hold(size, most, "unpacks to more than its size allows")


def _hold(size: int, most: int, why: str) -> None:
    raise_if(size > most, SearchError, f"it {why} ({most} bytes)", kind="blocked")


async def read_body(chunks: AsyncIterable[bytes], meter: Meter) -> bytes:
    """Read a body as it arrives, to its end or until the meter is full; raises as `Meter`."""
    async for chunk in chunks:
        meter.take(chunk)
        if meter.full:
            break
    return meter.end()


def parse_reply(content: bytes) -> Any:
    """Return the JSON value of a response; None if it is not JSON or has too many values."""
    try:
        check_size(content, values=VALUES, depth=DEPTH)
        return loads(content.decode("utf-8-sig"))
    except ValueError:
        return None


def retry_after(value: str | None) -> float | None:
    """Return the seconds to wait (RFC 9110, section 10.2.3), at least 0; None for an invalid value.

    Seconds may have decimals, which some services send. A date without a zone is in UTC.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text) if len(text) <= 64 else None  # a date takes 29
    except (ValueError, TypeError, OverflowError):
        moment = None
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def finish(make: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine to its end from any thread, even if its event loop is running.

    It gets a new event loop and thread, and the caller's context; the caller's loop and
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


async def spread(
    call: Callable[[Q], T | Awaitable[T]],
    items: Sequence[Q],
    at_once: int,
    *,
    threads: bool = False,
) -> list[T | Exception]:
    """Call once per item, at most ``at_once`` at a time.

    Args:
        call: Coroutine function of one item, or a function.
        items: Items to call it with.
        at_once: Maximum number of concurrent calls.
        threads: Whether ``call`` is a plain function, to be called in threads.

    Returns:
        One answer per item, in order; an exception is the answer of its item.
    """
    slots, pool = asyncio.Semaphore(at_once), ThreadPoolExecutor(at_once)

    async def guarded(item: Q) -> T | Exception:
        async with slots:
            try:
                if not threads:
                    return await cast(Awaitable[T], call(item))
                working = pool.submit(copy_context().run, cast(Callable[[Q], T], call), item)
                return await asyncio.wrap_future(working)
            except Exception as error:  # raised in the flow that asked
                return error

    try:
        return await asyncio.gather(*map(guarded, items))
    finally:
        pool.shutdown(wait=False)
