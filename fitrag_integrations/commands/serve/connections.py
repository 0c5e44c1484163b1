"""HTTP connections of a process: bounded in number, and in the time their clients may take."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from uvicorn.protocols.http.h11_impl import H11Protocol

from fitrag_integrations.commands.serve.limits import (
    CONNECTIONS,
    HEADER_SECONDS,
    HEARD_SECONDS,
    REPLY_SECONDS,
    ROOM,
    UNREAD_SECONDS,
)

_WAITING: dict[BoundedProtocol, tuple[float, asyncio.TimerHandle]] = {}
"""Connections whose client has to act, longest first, with its seconds and what closes them."""


def most_connections() -> int:
    """Return how many connections a process keeps: at most half of the files it may open."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed != resource.RLIM_INFINITY:
            return max(1, min(CONNECTIONS, allowed // 2))
    return CONNECTIONS


class BoundedProtocol(H11Protocol):
    """HTTP protocol that closes connections whose client neither sends nor reads, unlike uvicorn's.

    A client has `header_seconds` to complete a header, or what it goes on sending of an answered
    request, and `reply_seconds` to read a reply that its system no longer buffers. With more than
    `most` connections, the one that has waited longest for a header is closed first, then one whose
    reply has not been read for `unread_seconds`. A few newcomers are always let in, so that
    `/health` is answered, and a reply that is being read is never closed.
    """

    header_seconds, reply_seconds, most = HEADER_SECONDS, REPLY_SECONDS, most_connections()
    unread_seconds = UNREAD_SECONDS
    _left, _since = 0, 0.0  # bytes of a reply to be read, and since when they are so many

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, and close one if there are too many (asyncio)."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            self.loop.call_later(HEARD_SECONDS, self._make_room)

    def _make_room(self) -> None:
        """Close a connection if there are too many: of the silent, none that was hardly heard."""
        if (over := len(self.connections) - self.most) > 0:
            before = self.loop.time() - HEARD_SECONDS * (over < self.most)
            silent, stalled = list[BoundedProtocol](), list[BoundedProtocol]()
            for one, (seconds, timer) in _WAITING.items():
                if one._unread:
                    stalled += [one] * one._stalled()
                elif timer.when() - seconds <= before:
                    silent.append(one)
            newest = [self] if over > ROOM and self in _WAITING and not silent else []
            for one in (silent if len(silent) > ROOM else [*stalled, *newest])[:1]:
                one._abort()

    def data_received(self, data: bytes) -> None:
        """Read what arrived (asyncio)."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request (uvicorn)."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Stop writing to a client that does not read (asyncio)."""
        super().pause_writing()
        self._left, self._since = self.transport.get_write_buffer_size(), self.loop.time()
        self._watch()

    def resume_writing(self) -> None:
        """Go on writing (asyncio)."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection (asyncio)."""
        super().connection_lost(exc)
        self._watch(0.0)

    @property
    def _unread(self) -> bool:
        return self.flow.write_paused or self.transport.get_write_buffer_size() > 0

    def _stalled(self) -> bool:
        """Check whether nothing of a reply was read for so long, as far as anybody looked."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        if size < self._left:
            self._left, self._since = size, now
        return self._unread and now - self._since >= self.unread_seconds

    def _watch(self, seconds: float | None = None) -> None:
        """Start the time that the client has for its next act; 0 where it has nothing to do."""
        if seconds is None:
            idle = self.cycle is None or self.cycle.response_complete
            seconds = self.header_seconds * idle
            seconds = self.reply_seconds if self.flow.write_paused else seconds
        before, timer = _WAITING.get(self, (0.0, None))
        if seconds == before:
            return
        if timer:
            del _WAITING[self]
            timer.cancel()
        if seconds:
            _WAITING[self] = seconds, self.loop.call_later(seconds, self._abort)

    def _abort(self) -> None:
        self._watch(0.0)
        self.transport.abort()
