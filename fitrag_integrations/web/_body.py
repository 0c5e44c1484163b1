"""Read a response's body within a guard's limits, decompressing as it comes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable

from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.guard import NetworkGuard

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
        """Add one chunk as sent; at most one byte over a limit is ever unpacked."""
        self._wire += len(chunk)
        _hold(self._wire, self._guard.max_bytes, "is larger than allowed")
        most = self._guard.max_decoded_bytes
        wanted = most + 1 if self._cut is None else min(most + 1, self._cut)
        self._body += self._decoded(chunk, wanted - len(self._body))
        size = len(self._body)
        _hold(size, most, "is larger than allowed once unpacked")
        if size > RATIO_FROM:
            most = int(self._guard.max_ratio * self._wire)
            _hold(size, most, "unpacks to more than its size allows")

    def end(self) -> bytes:
        """Give what was read."""
        if self._unzip is not None and self._wire and not (self._unzip.eof or self.full):
            raise SearchError("its body breaks off", kind="transient")
        return bytes(self._body[: self._cut])

    def _decoded(self, chunk: bytes, room: int) -> bytes:
        if self._unzip is None:
            return chunk
        if self._unzip.eof:
            return b""
        try:
            return self._unzip.decompress(chunk, room)
        except zlib.error as error:
            raise SearchError("its body cannot be unpacked", kind="transient") from error


def _hold(size: int, most: int, why: str) -> None:
    if size > most:
        raise SearchError(f"it {why} ({most} bytes)", kind="blocked")
