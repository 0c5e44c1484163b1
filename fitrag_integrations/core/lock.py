"""Keep two writers from one file or folder, in this process and in others."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from fitrag_integrations.errors import InputError

_HELD: dict[str, int] = {}  # by path, the thread that holds it
_GUARD = threading.Lock()


def lock(descriptor: int, output: Path) -> None:
    """Lock an open file until it is closed or the process ends, however it ends; not on Windows.

    Raises `InputError` naming `output` where another run has it.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(output) from None


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a folder for the block; the same thread may lock it again.

    The lock is on the folder itself and leaves no file behind. Raises `InputError` at once where
    another thread or process holds it. Where the system cannot lock a folder (Windows, some network
    file systems), only this process is watched.
    """
    name, me = os.path.realpath(folder), threading.get_ident()
    with _GUARD:
        holder = _HELD.get(name)
        if holder not in (None, me):
            raise _busy(folder)
        _HELD[name] = me
    if holder == me:
        yield
        return
    try:
        with _locked(folder):
            yield
    finally:
        with _GUARD:
            del _HELD[name]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as closing:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            closing.callback(os.close, handle)  # which lets go of the lock
            lock(handle, folder)
        yield


def _busy(output: Path) -> InputError:
    allowed = "an output that no other run is writing"
    return InputError.of("output", given=str(output), allowed=allowed)
