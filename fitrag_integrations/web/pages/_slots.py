"""Whose turn it is: how many requests run at once within one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Slots:
    """Limit how many requests run at once, in all and against one host."""

    def __init__(self, total: int, per_host: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._per_host = per_host
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """Wait for a turn; a slow host's queue takes no turn from the others."""
        turns = self._hosts.get(host)
        if turns is None:
            turns = self._hosts[host] = asyncio.Semaphore(self._per_host)
        async with turns, self._total:
            yield

    def alone(self, key: str) -> asyncio.Lock:
        """Give the lock of a key, for what should be asked once and not by everybody."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
