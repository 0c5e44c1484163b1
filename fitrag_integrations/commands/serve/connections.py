"""HTTP connections of a process: bounded in number, and in the time their clients may take."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 1000  # of a process, and at most half of the files it may open
ROOM = 8  # of them that may wait for a header beyond that: `/health` is answered
HEADER_SECONDS = 10.0  # for a client to complete a header
REPLY_SECONDS = 30.0  # for a client to read a reply
HEARD_SECONDS = 0.5  # in which what a new client has sent is read
UNREAD_SECONDS = 5.0  # without reading, after which a reply may be cut where there is no room
LOOK_SECONDS = 0.2  # from one look at what a client does to the next


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

    A client has `header_seconds` to complete a header, or to send the rest of a request that was
    answered already, and `reply_seconds` to read on when a reply no longer fits into the buffers.
    With more than `most` connections, room is made for new ones: if more than `ROOM` wait for a
    header, the one that has waited longest is closed, otherwise one whose reply has not been read
    for `unread_seconds`. So a few new connections are always accepted, `/health` is answered, and
    no reply that is being read is closed to make room.
    """

    header_seconds, reply_seconds, most = HEADER_SECONDS, REPLY_SECONDS, most_connections()
    unread_seconds = UNREAD_SECONDS
    _waits_for: tuple[object, ...] = ()  # what the client has to do, in which request
    _since = 0.0
    _left, _read_at = 0, 0.0  # bytes of a reply to be read, and since when they are so many

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, and close one if there are too many (asyncio)."""
        super().connection_made(transport)
        self._look()
        if len(self.connections) > self.most:
            self.loop.call_later(HEARD_SECONDS, self._make_room)

    def resume_writing(self) -> None:
        """Begin a new wait, since the client has read what it was waited for (asyncio)."""
        super().resume_writing()
        self._waits_for = ()

    def _look(self) -> None:
        """Note what the client has to do, and close a connection whose client takes too long."""
        now, left = self.loop.time(), self.transport.get_write_buffer_size()
        idle = self.cycle is None or self.cycle.response_complete
        act = "read" if self.flow.write_paused else "send" if idle else ""
        if self._waits_for != (act, self.cycle):
            self._waits_for, self._since = (act, self.cycle), now
        if left < self._left or not self._left:
            self._read_at = now
        self._left = left
        seconds = {"read": self.reply_seconds, "send": self.header_seconds}.get(act, math.inf)
        if now - self._since >= seconds:
            self.transport.abort()
        if self in self.connections:  # also while it is closing, which waits for what is unread
            self.loop.call_later(LOOK_SECONDS, self._look)

    def _make_room(self) -> None:
        """Close a connection if there are too many: of the silent, none that was hardly heard."""
        over, now = len(self.connections) - self.most, self.loop.time()
        if over <= 0:
            return
        silent, stalled = list[BoundedProtocol](), list[BoundedProtocol]()
        connections = cast("set[BoundedProtocol]", self.connections)
        for one in sorted(connections, key=lambda one: one._since):
            if one.transport.get_write_buffer_size():
                stalled += [one] * (now - one._read_at >= self.unread_seconds)
            elif one._waits_for[:1] == ("send",) and (
                over >= self.most or now - one._since >= HEARD_SECONDS
            ):
                silent.append(one)
        newest = [self] if over > ROOM and self._waits_for[:1] == ("send",) and not silent else []
        for one in (silent if len(silent) > ROOM else [*stalled, *newest])[:1]:
            one.transport.abort()
