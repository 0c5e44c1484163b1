"""Read what a server answers: its body within limits of size and time, and its Retry-After."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from fitrag_integrations.errors import SearchError

_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{0,10})?", re.ASCII)
_LONGEST = 64  # characters: a date takes 29
STEP = 256_000
RATIO_FROM = 1_000_000
"""From how many decoded bytes on the ratio is looked at: small pages may well repeat themselves."""


class Limits(Protocol):
    """Bound a body: as sent, once unpacked, and the one by the other."""

    @property
    def max_bytes(self) -> int: ...
    @property
    def max_decoded_bytes(self) -> int: ...
    @property
    def max_ratio(self) -> float: ...


@dataclass(frozen=True)
class ReplyLimits:
    """Bound what a configured server may answer, which is JSON and no archive."""

    max_bytes: int = 20_000_000
    max_decoded_bytes: int = 50_000_000
    max_ratio: float = 100.0


def read_whole(read: Callable[[int], bytes], *, encoding: str, limits: Limits) -> bytes:
    """Read what a blocking ``read(size)`` gives to its end; raises as ``read_body`` does."""
    meter = _Meter(encoding, limits, None)
    while chunk := read(STEP):
        meter.take(chunk)
    return meter.end()


async def read_body(
    chunks: AsyncIterable[bytes], *, encoding: str, limits: Limits, cut: int | None
) -> bytes:
    """Read to the end, or to ``cut`` decoded bytes where that is given.

    Stops at the chunk that passes a limit and raises ``SearchError``: "blocked" for a body too
    large or packed in a way we did not ask for, "transient" for one that breaks off.
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
        """Say whether as much was read as is wanted."""
        return self._cut is not None and len(self._body) >= self._cut

    def take(self, chunk: bytes) -> None:
        """Add one chunk as sent; the limits are looked at after every step of unpacking."""
        self._wire += len(chunk)
        _hold(self._wire, self._limits.max_bytes, "is larger than allowed")
        while chunk and not self.full:
            piece, chunk = self._unpacked(chunk)
            self._body += piece
            self._check()

    def end(self) -> bytes:
        """Give what was read."""
        if self._unzip is not None and not self.full:
            self._body += self._unzip.flush()
            self._check()
            if self._wire and not self._unzip.eof:
                raise SearchError("its body breaks off", kind="transient")
        return bytes(self._body[: self._cut])

    def _unpacked(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Give at most ``STEP`` unpacked bytes, and what is left to unpack."""
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
    """Ask an httpx client for a reply, and read all of it within ``seconds`` and `ReplyLimits`.

    Gives an ``httpx.Response`` whose content is there. The deadline is for the whole answer, so
    that one that drips in does not last for ever. Raises what httpx raises: ``ReadTimeout`` past
    the deadline, ``DecodingError`` past the limits, ``ReadError`` where the body breaks off.
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
    """Give the seconds to wait, at least 0; None where it is neither a number nor a date.

    It says when to come back (RFC 9110, section 10.2.3).

    Seconds may have decimals, which services send though the RFC knows none. A date without a
    zone is in UTC, as HTTP's are.
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
