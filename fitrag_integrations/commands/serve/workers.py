"""The processes of a service: started together, replaced when one ends, and ended together.

uvicorn's supervisor asks one worker after the other whether it lives and waits for each answer. A
worker killed as it is asked holds up its own replacement, and every signal, for as long as a worker
may take to load its models. This one waits for whatever comes first: the end of a process, a sign
of life, a signal.

Their connections are closed when no request comes, and bounded in number.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from fitrag_integrations.commands.serve.limits import CONNECTIONS, HEADER_SECONDS, SILENT_SECONDS

BEAT = 1  # seconds between two signs of life
PAUSE = 1.0  # seconds before a worker is started in the place of one that never served
SPARE = 5.0  # seconds beyond the grace, after which a worker is killed
STOP = {signal.SIGINT, signal.SIGTERM}
RENEW = getattr(signal, "SIGHUP", None)  # Windows has none
log = logging.getLogger("uvicorn.error")


@dataclass(eq=False)
class Worker:
    """A process, its signs of life, and when it is killed unless one more comes."""

    process: SpawnProcess
    beats: Connection
    until: float
    ready: bool = False
    leaving: bool = False
    replaces: Worker | None = None


class Workers:
    """Supervisor of processes that listen on one socket.

    SIGTERM and SIGINT end them all, SIGHUP replaces them one after the other without a gap. A
    second SIGTERM or SIGINT kills what is left.

    Args:
        options: Keyword arguments of `uvicorn.Config`.
        count: How many processes serve.
        grace: Seconds in which a worker may answer what it has begun.
    """

    def __init__(self, options: dict[str, Any], count: int, *, grace: float) -> None:
        self._options, self._count, self._grace = options, count, grace
        self._workers: list[Worker] = []
        self._stale: list[Worker] = []  # to be replaced, after SIGHUP
        self._served = self._stopping = False
        self._status = 0
        self._next = 0.0  # when another may be started

    def run(self) -> int:
        """Serve until a signal ends it; return the exit status."""
        import uvicorn

        listening = uvicorn.Config(**self._options).bind_socket()
        with listening, _signals() as wake:
            try:
                while self._workers or not self._stopping:
                    self._start_missing(listening)
                    ends = [each.process.sentinel for each in self._workers]
                    beats = [each.beats for each in self._workers if not each.beats.closed]
                    wait([wake, *ends, *beats], timeout=0.5)
                    with suppress(BlockingIOError):
                        for number in wake.recv(64):
                            self._signaled(number)
                    for worker in list(self._workers):
                        self._look_at(worker)
            finally:
                for worker in self._workers:
                    worker.process.kill()
        return self._status

    def _start_missing(self, listening: socket.socket) -> None:
        if self._stopping or time.monotonic() < self._next:
            return
        serving = sum(not each.leaving and not each.replaces for each in self._workers)
        for _ in range(self._count - serving):
            self._start(listening)
        self._stale = [each for each in self._stale if each in self._workers]
        if self._stale and not any(each.replaces for each in self._workers):
            self._start(listening, replaces=self._stale.pop(0))

    def _start(self, listening: socket.socket, replaces: Worker | None = None) -> None:
        home = multiprocessing.get_context("spawn")
        reading, writing = home.Pipe(duplex=False)
        process = home.Process(target=_work, args=(self._options, listening, writing))
        process.start()
        writing.close()  # the worker's end of it is the only one: its end is seen
        self._workers.append(
            Worker(process, reading, time.monotonic() + SILENT_SECONDS, replaces=replaces)
        )

    def _signaled(self, number: int) -> None:
        if number in STOP and self._stopping:
            log.info("Killing what is left.")
            for worker in self._workers:
                worker.process.kill()
        elif number in STOP:
            self._stop()
        elif number == RENEW:
            log.info("Replacing all processes, one after the other.")
            self._stale = [each for each in self._workers if not each.leaving]

    def _stop(self, status: int = 0) -> None:
        self._stopping, self._status = True, status
        for worker in self._workers:
            self._leave(worker)

    def _leave(self, worker: Worker) -> None:
        worker.leaving, worker.until = True, time.monotonic() + self._grace + SPARE
        worker.process.terminate()

    def _look_at(self, worker: Worker) -> None:
        """Note a sign of life; kill a worker that has been silent, and bury one that has ended."""
        try:
            while not worker.beats.closed and worker.beats.poll():
                worker.beats.recv_bytes()
                worker.ready = self._served = True
                if not worker.leaving:
                    worker.until = time.monotonic() + SILENT_SECONDS
        except (EOFError, OSError):
            worker.beats.close()
        if not worker.process.is_alive():
            self._ended(worker)
        elif time.monotonic() > worker.until:
            log.error("Process [%d] does not react and is killed.", worker.process.pid)
            worker.process.kill()
        elif worker.ready and worker.replaces:
            self._leave(worker.replaces)
            worker.replaces = None

    def _ended(self, worker: Worker) -> None:
        worker.process.join()
        worker.beats.close()
        self._workers.remove(worker)
        for successor in self._workers:
            if successor.replaces is worker:
                successor.replaces = None
        if worker.leaving or self._stopping:
            return
        code = worker.process.exitcode
        log.error("Process [%d] ended with %s.", worker.process.pid, code)
        if not worker.ready:
            self._next = time.monotonic() + PAUSE
        if worker.replaces:
            log.error("The processes that were to be replaced stay.")
            self._stale = []
        elif code and code > 0 and not self._served:  # it would fail again
            self._stop(code)


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """Yield a socket that has a byte for each signal, the signal's number."""
    wake, waker = socket.socketpair()
    wake.setblocking(False)
    waker.setblocking(False)
    numbers = {*STOP, *([RENEW] if RENEW else [])}
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    previous = signal.set_wakeup_fd(waker.fileno())
    with wake, waker:
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)


def _work(options: dict[str, Any], listening: socket.socket, beats: Connection) -> None:
    """Serve in a process of its own."""
    import uvicorn

    async def beat() -> None:
        try:
            beats.send_bytes(b".")
        except OSError:  # the supervisor was killed: nobody would end this process
            signal.raise_signal(signal.SIGTERM)

    config = uvicorn.Config(**options, callback_notify=beat, timeout_notify=BEAT)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listening])


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
