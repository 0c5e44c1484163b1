"""Connections of the service: closed when no request comes, and bounded in number."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from uvicorn.protocols.http.h11_impl import H11Protocol

from fitrag_integrations.commands.serve.limits import CONNECTIONS, HEADER_SECONDS

LAST_SECONDS = 2.0  # for the first request of a connection, once the process ends
_WAITING: dict[BoundedProtocol, asyncio.TimerHandle] = {}
"""Connections without a whole request header, oldest first, each with what closes it."""


def most_connections() -> int:
    """Return how many connections a process keeps: at most half of the files it may open."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed != resource.RLIM_INFINITY:
            return max(1, min(CONNECTIONS, allowed // 2))
    return CONNECTIONS


class BoundedProtocol(H11Protocol):
    """HTTP protocol that bounds the time until a header is whole, which uvicorn does not.

    The same time holds for whatever a client goes on sending of a request that is answered. With
    too many connections the one that has waited longest for its header is closed. At the end of the
    process, a connection without a request yet may still send one: uvicorn would close it.
    """

    _leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close one (asyncio)."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > most_connections():
            next(iter(_WAITING)).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read what arrived (asyncio)."""
        super().data_received(data)
        if self._leaving and self.cycle is not None:
            self.cycle.keep_alive = False
        self._watch()

    def shutdown(self) -> None:
        """Close the connection after what it has begun (uvicorn)."""
        if self.cycle is not None:
            super().shutdown()
            return
        self._leaving = True
        self._unwatch()
        self._watch(LAST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection (asyncio)."""
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self, seconds: float = HEADER_SECONDS) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self not in _WAITING:
            _WAITING[self] = self.loop.call_later(seconds, self.transport.abort)

    def _unwatch(self) -> None:
        if timer := _WAITING.pop(self, None):
            timer.cancel()
