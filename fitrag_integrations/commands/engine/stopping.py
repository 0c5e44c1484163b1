"""End a run that is asked to: finish the batch in flight, then say where it stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_TERMINATED = 128 + signal.SIGTERM


class Terminated(Exception):
    """Tell that the run was asked to end."""


class Stopping:
    """Hear SIGTERM: at once between batches, at the end of one within it; a second one kills."""

    def __init__(self) -> None:
        self._busy, self._asked = False, False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen meanwhile; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Do what is not to be torn. Raises `Terminated` at its end where that was asked for."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._asked:
            raise Terminated

    def _hear(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._asked = True
        if not self._busy:
            raise Terminated
