"""One thread per model: the only one that touches its tokenizer and its weights.

Fast tokenizers are not thread-safe and fail silently, and both frameworks call components from
thread pools. So callers queue their items here. A task that works in token batches is a generator
that yields between two of them: there the worker looks who has given up, and gives the next token
batch to whoever has waited longest. Small jobs of one task are run as one list, middling ones as
another, large ones alone. The queue has no bound: whoever calls waits, and `fitrag serve` refuses
what is beyond its limits.

A forked child has no thread but the one that forked, and every lock as it was: gunicorn with
`--preload`, Celery's prefork pool and `multiprocessing` on Linux fork a process that has models
loaded. `ForkSafe` objects come to rest before and go on after.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeAlias, TypeVar

from fitrag_integrations.errors import ModelLoadError

Item = TypeVar("Item")
T = TypeVar("T")
Progress: TypeAlias = tuple[int, int]  # items done, of how many
Steps: TypeAlias = Generator[Progress, None, T]
Task: TypeAlias = Callable[[Sequence[Item]], Sequence[T] | Steps[Sequence[T]]]
Told: TypeAlias = Callable[[int, int], None]
FORK_SECONDS = 10.0  # what all together may hold a fork up
EXIT_SECONDS = 30.0  # what all workers together have for the batch they are in at exit
TELL_SECONDS = 0.1  # between two looks at how far a job is
SMALL = 8  # items of a job that is joined to others, where nobody says
JOINED = 4  # times as many may be in such a list
_ending = threading.Event()


class ForkSafe:
    """Something that is told of every fork of its process."""

    def __init__(self) -> None:
        _all.add(self)

    def before_fork(self, seconds: float) -> None:
        """Come to rest, within so many seconds."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent and in the child."""


_all: weakref.WeakSet[ForkSafe] = weakref.WeakSet()
_forking = threading.Lock()  # one fork at a time


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


class _Job(Generic[Item, T]):
    def __init__(self, task: Task[Item, T], items: Sequence[Item]) -> None:
        self.task, self.items = task, items
        # pending until its answers are there, so that it can be cancelled at any time before
        self.future: Future[list[T]] = Future()
        self.progress: Progress = (0, 0)

    def left(self) -> bool:
        """Check whether the caller has given up, and settle the future if so."""
        return self.future.cancelled() and not self.future.set_running_or_notify_cancel()

    def answer(self, answers: Sequence[T]) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(list(answers))

    def fail(self, error: BaseException) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


_AnyJob: TypeAlias = "_Job[Any, Any]"


class Worker(ForkSafe):
    """Answer queued items on one daemon thread, started at the first call.

    In a forked child it starts anew. One that is `bound` to its process, as what runs on a GPU is,
    raises `ModelLoadError` there. Jobs of up to `small` items are joined to
    lists of a few times as many, and so are larger ones of up to twice that, among themselves.
    """

    def __init__(self, name: str, *, bound: bool = False, small: int = SMALL) -> None:
        self._name, self._bound, self._small = name, bound, small
        self._closed = self._left_behind = self._held = False
        self._renew()
        super().__init__()

    def _renew(self) -> None:
        self._jobs: queue.SimpleQueue[_AnyJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stepping = threading.Lock()  # held while a token batch runs
        self._thread: _Server | None = None

    def before_fork(self, seconds: float) -> None:
        """Let the token batch in flight end, so that the child gets whole locks and caches."""
        if threading.current_thread() is not self._thread:
            self._held = self._stepping.acquire(timeout=seconds)

    def after_fork(self, *, in_child: bool) -> None:
        """Go on where the worker's thread still is; where it is not, start anew at a call."""
        if in_child:
            self._left_behind = self._bound
            self._renew()
        elif self._held:
            self._stepping.release()
        self._held = False

    def submit(self, task: Task[Item, T], items: Sequence[Item]) -> Future[list[T]]:
        """Queue items for a task, which gives one answer per item, in order.

        A future that is cancelled ends the work between two token batches.
        """
        return self._put(_Job(task, items)).future

    def call(
        self, task: Task[Item, T], items: Sequence[Item], *, on_progress: Told | None = None
    ) -> list[T]:
        """Queue items and wait for their answers; `on_progress` gets the progress."""
        if not items:
            return []
        if threading.current_thread() is self._thread:  # a task that asks its own worker
            found = task(items)
            return list(finished(found) if isinstance(found, Generator) else found)
        job = self._put(_Job(task, items))
        try:
            while on_progress is not None and not job.future.done():
                with contextlib.suppress(TimeoutError):
                    job.future.exception(TELL_SECONDS)
                on_progress(*job.progress)
            return job.future.result()
        except BaseException:
            job.future.cancel()  # a caller who was interrupted
            raise

    async def acall(self, task: Task[Item, T], items: Sequence[Item]) -> list[T]:
        """Queue items and await their answers; the event loop stays free.

        A cancelled call ends the work between two token batches.
        """
        if not items:
            return []
        return await asyncio.wrap_future(self.submit(task, items))

    @property
    def closed(self) -> bool:
        """Whether the worker was stopped."""
        return self._closed

    def close(self) -> None:
        """Finish what is queued, then stop; later calls raise `ModelLoadError`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def end(self) -> None:
        """End the thread after the queued work; `_put` accepts nothing more after that."""
        with self._lock:
            self._jobs.put(None)

    def _put(self, job: _Job[Item, T]) -> _Job[Item, T]:
        with self._lock:
            if self._closed:
                raise ModelLoadError(f"{self._name} was unloaded: load it again to use it")
            if self._left_behind:
                raise ModelLoadError(
                    f"{self._name} runs on a GPU, which a forked process cannot use: load it after "
                    "the fork, or start processes with 'spawn'"
                )
            check_going()
            if self._thread is None:  # it holds the queue, not the worker, which can be collected
                name = f"fitrag-{self._name}"
                self._thread = _Server(name, self._jobs, self._stepping, small=self._small)
                self._thread.start()
                weakref.finalize(self, self._jobs.put, None)
            self._jobs.put(job)
        return job


class _Server(threading.Thread):
    """Serve one worker's queue until the end is put into it and all that came before is done."""

    def __init__(
        self,
        name: str,
        jobs: queue.SimpleQueue[_AnyJob | None],
        stepping: threading.Lock,
        *,
        small: int,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._jobs, self._stepping, self._small = jobs, stepping, small
        self._turns: deque[_Turn] = deque()
        self._last = False
        self._turn: _Turn | None = None

    def run(self) -> None:
        """Return turns; between jobs nothing of a task or its model is held."""
        while self._take():
            self._turn = self._turns.popleft()
            with self._stepping:
                self._turns.extend(self._turn.step())
            self._turn = None

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for what is being run."""
        return self._turn is not None and self._turn.abandoned

    def _take(self) -> bool:
        """Line up all jobs that are there, waiting for one if need be; say whether there are."""
        taken: list[_AnyJob] = []
        with contextlib.suppress(queue.Empty):
            while not self._last:
                job = self._jobs.get(block=not (taken or self._turns))
                if job is None:
                    self._last = True
                else:
                    taken.append(job)
        self._turns.extend(_joined(taken, self._small))
        return bool(self._turns)


class _Turn:
    """Run some jobs of one task as one list, a token batch at a time."""

    def __init__(self, jobs: Sequence[_AnyJob]) -> None:
        self._jobs = jobs
        self._steps: Steps[Sequence[Any]] | None = None

    @property
    def abandoned(self) -> bool:
        """Whether all who asked have given up."""
        return all(job.future.cancelled() for job in self._jobs)

    def step(self) -> list[_Turn]:
        """Run up to the end of the next token batch; gives what remains to be run.

        If jobs that were joined fail, they are run again one by one, to find the guilty.
        """
        try:
            answers = None if self.abandoned else self._answers()
        except BaseException as error:
            if len(self._jobs) > 1:
                return [_Turn([job]) for job in self._jobs]
            self._jobs[0].fail(error)
            return []
        if self.abandoned:
            if self._steps is not None:
                self._steps.close()
            for job in self._jobs:
                job.left()
            return []
        if answers is None:
            return [self]
        at = 0
        for job in self._jobs:
            job.answer(answers[at : at + len(job.items)])
            at += len(job.items)
        return []

    def _answers(self) -> list[Any] | None:
        """Run one step; return the answers once all are there."""
        if self._steps is None:
            self._jobs = [job for job in self._jobs if not job.left()]
            found = self._jobs[0].task([item for job in self._jobs for item in job.items])
            if not isinstance(found, Generator):
                return list(found)
            self._steps = found
        try:
            progress = next(self._steps)
        except StopIteration as done:
            return list(done.value)
        for job in self._jobs:
            job.progress = progress
        return None


def _joined(jobs: Sequence[_AnyJob], small: int) -> list[_Turn]:
    """Join jobs of one task to lists of a bounded size; a large job stands alone.

    Small ones are joined to small ones, so that they wait for no others' items.
    """
    lists: list[list[_AnyJob]] = []
    open_lists: dict[tuple[Task[Any, Any], bool], tuple[list[_AnyJob], int]] = {}
    for job in jobs:
        size, few = len(job.items), len(job.items) <= small
        most = JOINED * small if few else 2 * JOINED * small
        members, held = open_lists.get((job.task, few), ([], most))
        if held + size > most:
            members, held = [], 0
            lists.append(members)
        members.append(job)
        open_lists[job.task, few] = members, held + size
    return [_Turn(members) for members in lists]


def finished(steps: Steps[T]) -> T:
    """Run what works in steps to its end, all at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            answer: T = done.value
            return answer


def check_going() -> None:
    """Raise `ModelLoadError` if the interpreter is ending, when nothing more is run."""
    if _ending.is_set():
        raise ModelLoadError("the interpreter is ending: nothing more is run")


def abandoned() -> bool:
    """Check whether nobody waits any more for what this thread runs, a worker's or not."""
    thread = threading.current_thread()
    return _ending.is_set() or (isinstance(thread, _Server) and thread.abandoned)


@atexit.register
def _end_all() -> None:
    """End all workers before the interpreter frees what they use: torch aborts otherwise.

    Each finishes the batch it is in. Whoever waits for more, or asks later, gets an error.
    """
    _ending.set()
    for one in list(_all):
        if isinstance(one, Worker):
            one.end()
    until = time.monotonic() + EXIT_SECONDS
    for thread in threading.enumerate():
        if isinstance(thread, _Server):
            thread.join(max(0.0, until - time.monotonic()))
