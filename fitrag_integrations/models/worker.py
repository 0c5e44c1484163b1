"""One thread per model: the only one that touches its tokenizer and its weights.

Fast tokenizers are not thread-safe and fail silently, and both frameworks call components from
thread pools. So callers queue their items here. The worker takes all that waits, hands items that
belong to one job kind to the model as one list, and gives every caller its own answers, in order.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from fitrag_integrations.errors import ModelLoadError

Item = TypeVar("Item")
T = TypeVar("T")
Task = Callable[[Sequence[Any]], Sequence[Any]]
EXIT_SECONDS = 30.0  # what all workers together have for the batch they are in at exit
_ending = threading.Event()


@dataclass(frozen=True)
class _Job:
    task: Task
    items: Sequence[Any]
    future: Future[list[Any]]


class Worker:
    """Answer queued items on one daemon thread, started at the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: _Server | None = None
        self._closed = False

    def submit(self, task: Task, items: Sequence[Any]) -> Future[list[Any]]:
        """Queue items for a task, which gives one answer per item, in order."""
        job = _Job(task, items, Future())
        with self._lock:
            if self._closed:
                raise ModelLoadError(f"{self._name} was unloaded: load it again to use it")
            if self._thread is None:
                self._start()
            self._jobs.put(job)
        return job.future

    def call(self, task: Task, items: Sequence[Any]) -> list[Any]:
        """Queue items and wait for their answers."""
        if not items:
            return []
        if threading.current_thread() is self._thread:  # a task that asks its own worker
            return list(task(items))
        return self.submit(task, items).result()

    async def acall(self, task: Task, items: Sequence[Any]) -> list[Any]:
        """Queue items and await their answers; the event loop stays free."""
        if not items:
            return []
        return await asyncio.wrap_future(self.submit(task, items))

    @property
    def closed(self) -> bool:
        """Say whether the worker was stopped."""
        return self._closed

    def close(self) -> None:
        """Finish what is queued, then stop; later calls raise `ModelLoadError`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _start(self) -> None:
        # The thread holds the queue, not the worker, so that a forgotten model can be collected.
        self._thread = _Server(self._jobs, f"fitrag-{self._name}")
        self._thread.start()
        weakref.finalize(self, self._jobs.put, None)


class _Server(threading.Thread):
    """Serve one worker's queue until the end is put into it."""

    def __init__(self, jobs: queue.SimpleQueue[_Job | None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs = jobs

    def run(self) -> None:
        """Serve round after round; between them nothing of a task or its model is held."""
        while _serve_round(self.jobs):
            pass


@atexit.register
def _end_all() -> None:
    """End all workers before the interpreter frees what they use: torch aborts otherwise.

    Each finishes the batch it is in; whatever else is queued by then, nobody waits for.
    """
    _ending.set()
    servers = [thread for thread in threading.enumerate() if isinstance(thread, _Server)]
    for server in servers:
        server.jobs.put(None)
    until = time.monotonic() + EXIT_SECONDS
    for server in servers:
        server.join(max(0.0, until - time.monotonic()))


def _serve_round(jobs: queue.SimpleQueue[_Job | None]) -> bool:
    """Wait for jobs and answer all that are there; say whether to go on.

    A function of its own, so that its names do not keep a model alive during the next wait.
    """
    waiting, last = _take(jobs)
    groups: dict[Task, list[_Job]] = {}
    for job in waiting:
        if job.future.set_running_or_notify_cancel():
            groups.setdefault(job.task, []).append(job)
    for task, members in groups.items():
        _answer(task, members)
    return not last


def _take(jobs: queue.SimpleQueue[_Job | None]) -> tuple[list[_Job], bool]:
    """Wait for a job, then take all others that are there; say whether the end was among them."""
    taken = [jobs.get()]
    with contextlib.suppress(queue.Empty):
        while taken[-1] is not None:
            taken.append(jobs.get_nowait())
    return [job for job in taken if job is not None], taken[-1] is None


def _answer(task: Task, members: Sequence[_Job]) -> None:
    """Run the members' items as one list; a failure is run again job by job to find the guilty."""
    try:
        answers = list(task([item for job in members for item in job.items]))
    except BaseException as error:
        if len(members) == 1:
            members[0].future.set_exception(error)
            return
        for job in members:
            _answer(task, [job])
        return
    at = 0
    for job in members:
        job.future.set_result(answers[at : at + len(job.items)])
        at += len(job.items)


def token_batches(lengths: Sequence[int], *, budget: int) -> Iterator[list[int]]:
    """Cut items into batches of like length whose padded size is at most `budget` tokens.

    Gives index lists that cover every item once, longest first, so that the largest batch fails
    first if memory is short. An item longer than the budget is a batch of its own.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def in_batches(
    items: Sequence[Item],
    run: Callable[[list[Item]], Sequence[T]],
    *,
    length: Callable[[Item], int],
    budget: int,
) -> list[T]:
    """Run items through `run` in token batches; results in the order given.

    A batch the device has no memory for is cut in half and tried again. Raises `ModelLoadError`
    between two batches if the interpreter is ending.
    """
    results: dict[int, T] = {}
    for batch in token_batches([length(item) for item in items], budget=budget):
        if _ending.is_set():
            raise ModelLoadError("the interpreter is ending: nothing more is run")
        for i, result in zip(batch, _halving([items[i] for i in batch], run), strict=True):
            results[i] = result
    return [results[i] for i in range(len(items))]


def _halving(batch: list[Item], run: Callable[[list[Item]], Sequence[T]]) -> list[T]:
    import torch

    try:
        return list(run(batch))
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
    torch.cuda.empty_cache()
    middle = len(batch) // 2
    return _halving(batch[:middle], run) + _halving(batch[middle:], run)
