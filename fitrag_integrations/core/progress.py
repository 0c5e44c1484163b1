"""Progress bars for slow work, and an orderly stop when the system requests one.

The bar appears after two seconds, drawn by tqdm in notebooks and terminals alike.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType

from fitrag_integrations.core.generic import T

DELAY = 2.0
"""Seconds before a bar that nobody asked for appears."""


def tracked(items: Iterable[T], label: str, *, show: bool | None) -> Iterable[T]:
    """Iterate over items under a bar on standard error.

    `show` True draws it at once, False never, and None once it takes more than `DELAY` seconds,
    where somebody watches: in a notebook or at a terminal.
    """
    if not _drawn(show):
        return items
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    bar: Iterable[T] = tqdm(items, desc=label, delay=0.0 if show else DELAY)
    return bar


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split items into lists of `size`; the last may be shorter."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


@contextmanager
def bar(label: str, *, show: bool | None) -> Iterator[Callable[[int, int], None] | None]:
    """Draw a bar; yields the function to report finished items to, or None."""
    if not _drawn(show):
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(desc=label, delay=0.0 if show else DELAY) as drawn:

        def advance(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield advance


def _drawn(show: bool | None) -> bool:
    return "ipykernel" in sys.modules or sys.stderr.isatty() if show is None else show


class Terminated(Exception):
    """A run that stopped because it was asked to; has the place where it stopped."""


class Stopping:
    """Handler of SIGTERM and Ctrl-C: stops between batches or after one; a second signal kills.

    `code` is the exit code of a run that was stopped, as shells expect it. Where a batch has to end
    first, `says` is written to standard error at once.
    """

    code = 128 + signal.SIGTERM

    def __init__(self) -> None:
        self._busy = self.asked = False  # in a batch; asked by the system to end
        self.says: Callable[[], str] = str

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen for signals in the block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
        for one, handler in before.items():
            if handler is not signal.SIG_IGN:  # shells have jobs in the background ignore Ctrl-C
                signal.signal(one, self._hear)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Run a block that must not be interrupted; raises `Terminated` at its end if one was
        requested.
        """
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self.asked:
            raise Terminated

    def _hear(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        self.asked, Stopping.code = True, 128 + number
        if not self._busy:
            raise Terminated
        if said := self.says():
            os.write(2, f"{said}; a second signal ends it at once\n".encode())
