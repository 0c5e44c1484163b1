"""Read a response's body within a guard's limits, decompressing as it comes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable

from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.guard import NetworkGuard

STEP = 256_000
RATIO_FROM = 1_000_000
"""From how many decoded bytes on the ratio is looked at: small pages may well repeat themselves."""


async def read_body(
    chunks: AsyncIterable[bytes], *, encoding: str, guard: NetworkGuard, cut: int | None
) -> bytes:
    """Read to the end, or to ``cut`` decoded bytes where that is given.

    Stops at the chunk that passes a limit and raises ``SearchError``: "blocked" for a body too
    large or packed in a way we did not ask for, "transient" for one that breaks off.
    """
    meter = _Meter(encoding, guard, cut)
    async for chunk in chunks:
        meter.take(chunk)
        if meter.full:
            break
    return meter.end()


class _Meter:
    def __init__(self, encoding: str, guard: NetworkGuard, cut: int | None) -> None:
        coding = encoding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise SearchError("its encoding is one we did not ask for", kind="blocked")
        self._unzip = zlib.decompressobj(31) if "gzip" in coding else None
        self._guard = guard
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
        _hold(self._wire, self._guard.max_bytes, "is larger than allowed")
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
        _hold(size, self._guard.max_decoded_bytes, "is larger than allowed once unpacked")
        if size > RATIO_FROM:
            most = int(self._guard.max_ratio * self._wire)
            _hold(size, most, "unpacks to more than its size allows")


def _hold(size: int, most: int, why: str) -> None:
    if size > most:
        raise SearchError(f"it {why} ({most} bytes)", kind="blocked")
