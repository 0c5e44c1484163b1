"""Make many calls side by side: in threads or on the loop, bounded, each failure its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import SearchError

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")


def waited(start: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine to its end on a loop of its own, in a thread of its own.

    So it works inside a running loop as well, and leaves the caller's loop policy as it was.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, lambda: asyncio.run(start())).result()


def spread(call: Callable[[Q], A], items: Sequence[Q], at_once: int) -> list[A | Exception]:
    """Call once per item, in up to ``at_once`` threads; what an item raises is its answer."""

    def guarded(item: Q) -> A | Exception:
        try:
            return call(item)
        except Exception as error:  # raised in the flow that asked
            return error

    if len(items) < 2:
        return [guarded(item) for item in items]
    with ThreadPoolExecutor(min(len(items), at_once)) as pool:
        running = [pool.submit(copy_context().run, guarded, item) for item in items]
        return [future.result() for future in running]


async def aspread(
    acall: Callable[[Q], Awaitable[A]], items: Sequence[Q], at_once: int
) -> list[A | Exception]:
    """Await one call per item, at most ``at_once`` at a time; what one raises is its answer."""
    slots = asyncio.Semaphore(at_once)

    async def guarded(item: Q) -> A | Exception:
        async with slots:
            try:
                return await acall(item)
            except Exception as error:  # raised in the flow that asked
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(guarded(item)) for item in items]
    return [task.result() for task in tasks]


def retry_options(tries: int, wait: float, *, feature: str, extra: str) -> dict[str, Any]:
    """Give tenacity's options for up to ``tries`` tries, where only passing faults are tried again.

    Between two tries it waits a random time below ``wait``, twice that, and so on, in seconds.
    """
    tenacity = require_extra("tenacity", extra=extra, feature=feature)
    return {
        "stop": tenacity.stop_after_attempt(tries),
        "wait": tenacity.wait_random_exponential(multiplier=wait, max=30),
        "retry": tenacity.retry_if_exception(_is_passing),
        "reraise": True,
    }


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, SearchError) and error.kind == "transient"
