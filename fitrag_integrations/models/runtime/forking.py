"""What a fork leaves whole: a child gets no thread but the one that forked, and every lock as is.

gunicorn with `--preload`, Celery's prefork pool and `multiprocessing` on Linux fork a process that
has models loaded. What holds a thread or a lock is told before and after.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TypeVar

FORK_SECONDS = 10.0  # what all together may hold a fork up


class ForkSafe:
    """Something that is told of every fork of its process."""

    def __init__(self) -> None:
        _all.add(self)

    def before_fork(self, seconds: float) -> None:
        """Come to rest, within so many seconds."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent and in the child."""


S = TypeVar("S", bound=ForkSafe)
_all: weakref.WeakSet[ForkSafe] = weakref.WeakSet()
_forking = threading.Lock()  # one fork at a time


def living(kind: type[S]) -> list[S]:
    """Return all of a kind that are there."""
    return [one for one in list(_all) if isinstance(one, kind)]


def _before() -> None:
    _forking.acquire()
    until = time.monotonic() + FORK_SECONDS
    for one in list(_all):
        one.before_fork(max(0.0, until - time.monotonic()))


def _after(*, in_child: bool) -> None:
    global _forking
    for one in list(_all):
        one.after_fork(in_child=in_child)
    if in_child:
        _forking = threading.Lock()
    else:
        _forking.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
