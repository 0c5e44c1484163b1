"""One thread per model, which alone uses its tokenizer and its weights.

Fast tokenizers are not thread-safe and fail silently, and both frameworks call components from
thread pools. So callers queue their items on an executor of one thread. A task that works in token
batches is a generator that yields between two of them: there its job goes to the end of the queue,
so that callers take turns, and ends if its caller has given up. The queue has no bound: whoever
calls waits, and `fitrag serve` refuses what is beyond its limits.

A forked child has no thread but the one that forked, and every lock as it was: gunicorn with
`--preload`, Celery's prefork pool and `multiprocessing` on Linux fork a process that has models
loaded. Workers rest between two token batches during a fork, and start anew in the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from fitrag_integrations.core.generic import Q, T
from fitrag_integrations.errors import ModelLoadError, raise_if

Progress: TypeAlias = tuple[int, int]  # items done, of how many
Steps: TypeAlias = Generator[Progress, None, T]
Task: TypeAlias = Callable[[Sequence[Q]], Sequence[T] | Steps[Sequence[T]]]
OnProgress: TypeAlias = Callable[[int, int], None]
FORK_SECONDS = 10.0  # what all workers together may hold a fork up
PROGRESS_SECONDS = 0.1  # between two looks at how far a job is
ENDING = "the interpreter is ending: nothing more is run"
_running = threading.local()  # the job that a worker's thread runs
_forking = threading.Lock()  # one fork at a time


@dataclass(eq=False)
class _Job:
    """What one caller wants; its future is pending to the end, so that it can be cancelled."""

    task: Task[Any, Any]
    items: Sequence[Any]
    future: Future[list[Any]] = field(default_factory=Future)
    steps: Steps[Sequence[Any]] | None = None
    progress: Progress = (0, 0)

    def step(self) -> bool:
        """Run up to the end of the next token batch; return whether nothing remains to be run."""
        if self.future.cancelled():
            if self.steps is not None:
                self.steps.close()
            return True
        try:
            if self.steps is None:
                found = self.task(self.items)
                if not isinstance(found, Generator):
                    return self.settle(found)
                self.steps = found
            self.progress = next(self.steps)
        except StopIteration as done:
            return self.settle(done.value)
        except BaseException as error:
            return self.settle(error)
        return False

    def settle(self, found: Sequence[Any] | BaseException) -> bool:
        if self.future.set_running_or_notify_cancel():
            if isinstance(found, BaseException):
                self.future.set_exception(found)
            else:
                self.future.set_result(list(found))
        return True


def _step(job: _Job, pool: ThreadPoolExecutor, stepping: threading.Lock) -> None:
    """Run a token batch of a job, and queue what remains behind the other jobs."""
    _running.job, _running.lock = job, stepping  # not the pool, which may be collected
    with stepping:
        done = job.step()
    _running.job = None
    if not done:
        try:
            pool.submit(_step, job, pool, stepping)
        except RuntimeError:
            job.settle(ModelLoadError(ENDING))


class Worker:
    """Thread that answers queued items, started at the first call.

    In a forked child it starts anew. One that is `bound` to its process, as what runs on a GPU is,
    raises `ModelLoadError` there.
    """

    def __init__(self, name: str, *, bound: bool = False) -> None:
        self._name, self._bound = name, bound
        self.closed = self._left_behind = self._held = False
        self._renew()
        _workers.add(self)

    def _renew(self) -> None:
        self._pool = ThreadPoolExecutor(1, f"fitrag-{self._name}")
        self._stepping = threading.Lock()  # held while a token batch runs
        self._pending = set[Future[Any]]()

    def submit(self, task: Task[Q, T], items: Sequence[Q]) -> Future[list[T]]:
        """Queue items for a task, which gives one answer per item, in order.

        A future that is cancelled ends the work between two token batches.
        """
        return self._put(_Job(task, items)).future

    def call(
        self, task: Task[Q, T], items: Sequence[Q], *, on_progress: OnProgress | None = None
    ) -> list[T]:
        """Queue items and wait for their answers; `on_progress` gets the progress."""
        if not items:
            return []
        if getattr(_running, "lock", None) is self._stepping:  # a task that asks its own worker
            found = task(items)
            return list(finished(found) if isinstance(found, Generator) else found)
        job = self._put(_Job(task, items))
        try:
            while on_progress is not None and not job.future.done():
                with contextlib.suppress(TimeoutError):
                    job.future.exception(PROGRESS_SECONDS)
                on_progress(*job.progress)
            return job.future.result()
        except BaseException:
            job.future.cancel()  # a caller who was interrupted
            raise

    async def acall(self, task: Task[Q, T], items: Sequence[Q]) -> list[T]:
        """Queue items and await their answers; the event loop stays free.

        A cancelled call ends the work between two token batches.
        """
        return await asyncio.wrap_future(self.submit(task, items)) if items else []

    def close(self) -> None:
        """Finish what is queued, then stop; later calls raise `ModelLoadError`."""
        self.closed = True
        if getattr(_running, "lock", None) is not self._stepping:
            wait(self._pending)
            self._pool.shutdown()

    def _put(self, job: _Job) -> _Job:
        raise_if(self.closed, ModelLoadError, f"{self._name} was unloaded: load it again to use it")
        raise_if(
            self._left_behind,
            ModelLoadError,
            f"{self._name} runs on a GPU, which a forked process cannot use: load it after the "
            "fork, or start processes with 'spawn'",
        )
        self._pending.add(job.future)
        job.future.add_done_callback(self._pending.discard)
        try:
            self._pool.submit(_step, job, self._pool, self._stepping)
        except RuntimeError:
            raise ModelLoadError(ENDING) from None
        return job


_workers = weakref.WeakSet[Worker]()


def _before_fork() -> None:
    """Let the token batches in flight end, so that the child gets consistent locks and caches."""
    _forking.acquire()
    until = time.monotonic() + FORK_SECONDS
    for one in list(_workers):
        if getattr(_running, "lock", None) is not one._stepping:
            one._held = one._stepping.acquire(timeout=max(0.0, until - time.monotonic()))


def _after_fork(*, in_child: bool) -> None:
    """Go on in the parent; start anew in the child, where no worker's thread is."""
    global _forking
    for one in list(_workers):
        if in_child:
            one._left_behind = one._bound
            one._renew()
        elif one._held:
            one._stepping.release()
        one._held = False
    if in_child:
        _forking = threading.Lock()
    else:
        _forking.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )


def finished(steps: Steps[T]) -> T:
    """Run a stepwise task to its end, all at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(T, done.value)


def abandoned() -> bool:
    """Check whether nobody waits any more for what this thread runs, a worker's or not."""
    job = getattr(_running, "job", None)
    ending = not threading.main_thread().is_alive()
    return ending or (job is not None and job.future.cancelled())
