"""Drivers that run a flow: sync or async, alone or several in lock step.

A flow yields ``Ask`` objects and is sent the answers, one per item and in order. The drivers below
answer it: ``run`` and ``arun`` run one flow, ``run_many`` and ``arun_many`` run several and join
all asks to equal ports into one call per round. A test can drive a flow by hand with ``send``,
without a driver.

How failures are reported:

- a port raises: the error is raised inside the flow, which may handle it;
- a call that several flows share raises, or gives the wrong number of answers: it is repeated for
  each flow alone, so that only the flow that caused the error fails;
- an answer is itself an exception: it is raised only inside the flow that asked for it, unless it
  is a ``RefusedError`` and the flow accepts refusals;
- a flow raises: its ``Traced`` has the error, and the other flows continue;
- the driver is stopped, cancelled or timed out: pending calls are cancelled, all flows closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import copy_context
from threading import Lock
from typing import Any, Generic, TypeAlias, cast

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.core.generic import R
from fitrag_integrations.core.show import describe_error
from fitrag_integrations.errors import PortError, RefusedError, raise_if
from fitrag_integrations.flow.ask import Answers, AnyPort, Ask, Flow
from fitrag_integrations.flow.trace import Step, Traced

Reply: TypeAlias = tuple[Answers, float]  # and seconds
OnStep: TypeAlias = Callable[[int, Step], None]


class Rounds(Generic[R]):
    """Rounds of flows in lock step, advanced from any thread, one thread at a time.

    All code of the flows runs in one copy of the context. Closing never waits: the flows are closed
    at once or, if a thread is running one of them, by that thread as soon as it is done.
    """

    def __init__(self, flows: Sequence[Flow[R]], on_step: OnStep | None) -> None:
        self._rounds = lock_step(flows, on_step)
        self.context = copy_context()
        self._working = Lock()
        self._closed = False
        self.traces: list[Traced[R]] = []

    def advance(self, replies: list[Reply] | None) -> list[Ask] | None:
        """Send the replies of one round and return the asks of the next.

        Returns None once all flows have ended, because a future cannot hold ``StopIteration``;
        ``traces`` then has their outcomes.
        """
        try:
            with self._working:
                return self.context.run(self._rounds.send, replies)
        except StopIteration as done:
            self.traces = done.value or []
            return None
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Close all flows; flows that have ended are not changed."""
        self._closed = True
        # Whoever holds the lock looks at _closed after letting it go, so one of the two closes.
        if self._working.acquire(blocking=False):
            try:
                self.context.run(self._rounds.close)
            finally:
                self._working.release()


def lock_step(
    flows: Sequence[Flow[R]], on_step: OnStep | None
) -> Generator[list[Ask], list[Reply] | None, list[Traced[R]]]:
    """Yield each round's joined asks and receive their replies, until every flow has ended."""
    outcomes: dict[int, R | Exception] = {}
    steps: list[list[Step]] = [[] for _ in flows]
    replies: dict[int, Answers | None] = dict.fromkeys(range(len(flows)))
    with contextlib.ExitStack() as closing:
        for flow in flows:
            closing.callback(flow.close)
        while asks := _advance(flows, replies, outcomes):
            answered = yield from _round(asks)
            for i, ask in asks.items():
                answers, seconds = answered[i]
                replies[i] = reply = _reply(ask, answers)
                steps[i].append(_step(ask, answers, reply, seconds))
                if on_step is not None:
                    on_step(i, steps[i][-1])
    return [Traced(outcomes[i], tuple(steps[i])) for i in range(len(flows))]


def _advance(
    flows: Sequence[Flow[R]], replies: dict[int, Answers | None], outcomes: dict[int, R | Exception]
) -> dict[int, Ask]:
    """Send each waiting flow its reply, record the flows that ended and return the next asks."""
    asks: dict[int, Ask] = {}
    for i, reply in replies.items():
        flow = flows[i]
        try:
            ask = flow.throw(reply) if isinstance(reply, Exception) else flow.send(reply)
            asks[i] = check_is("flow", ask, Ask, "yield Ask objects only")
        except StopIteration as done:
            outcomes[i] = done.value
        except Exception as error:  # noqa: BLE001 - this question failed; the others go on
            outcomes[i] = error
    replies.clear()
    return asks


def _round(
    asks: dict[int, Ask],
) -> Generator[list[Ask], list[Reply] | None, dict[int, Reply]]:
    """Join asks by port, and repeat one by one those whose joined call failed."""
    groups: dict[AnyPort, list[int]] = {}
    for i, ask in asks.items():
        groups.setdefault(ask.port, []).append(i)
    joined = [
        Ask(port, [item for i in members for item in asks[i].items])
        for port, members in groups.items()
    ]
    answered: dict[int, Reply] = {}
    again: list[int] = []
    replies = (yield joined) or []
    for members, (answers, seconds) in zip(groups.values(), replies, strict=True):
        at, total = 0, sum(len(asks[i].items) for i in members)
        for i in members:  # to each its own answers, and its fraction of the seconds
            count = len(asks[i].items)
            mine = answers if isinstance(answers, Exception) else answers[at : at + count]
            answered[i] = mine, seconds * count / total if total else 0.0
            at += count
        if isinstance(answers, Exception) and len(members) > 1:
            again.extend(members)
    if again:
        repeated = (yield [asks[i] for i in again]) or []
        for i, (answers, seconds) in zip(again, repeated, strict=True):
            answered[i] = answers, seconds + answered[i][1]
    return answered


def _step(ask: Ask, answers: Answers, reply: Answers, seconds: float) -> Step:
    """Record a call: what it answered, and the error that the flow receives of it."""
    got = () if isinstance(answers, Exception) else tuple(answers)
    error = describe_error(reply) if isinstance(reply, Exception) else None
    tokens = None
    if ask.port.tokens is not None and got:
        with contextlib.suppress(Exception):  # a miscount must not cost the answer
            tokens = int(ask.port.tokens(ask.items, got))
    return Step(ask.port.name, tuple(ask.items), got, seconds, tokens, error)


def _reply(ask: Ask, answers: Answers) -> Answers:
    """Return the error that a flow should receive, else its answers."""
    if isinstance(answers, Exception):
        return answers
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    if ask.refusals and len(errors) < len(answers):
        errors = [error for error in errors if not isinstance(error, RefusedError)]
    return errors[0] if errors else answers


def run(flow: Flow[R], *, on_step: OnStep | None = None) -> Traced[R]:
    """Run one flow to its end.

    Args:
        flow: The flow, e.g. ``method(question, ports)``.
        on_step: Called with 0 and each finished step.
    """
    return run_many([flow], on_step=on_step)[0]


async def arun(flow: Flow[R], *, on_step: OnStep | None = None) -> Traced[R]:
    """Run one flow to its end without blocking the event loop; see ``arun_many``.

    Args:
        flow: The flow, e.g. ``method(question, ports)``.
        on_step: Called with 0 and each finished step.
    """
    return (await arun_many([flow], on_step=on_step))[0]


def run_many(flows: Iterable[Flow[R]], *, on_step: OnStep | None = None) -> list[Traced[R]]:
    """Run flows in lock step; calls of one round to the same port are joined.

    Args:
        flows: The flows.
        on_step: Called with the flow's index and each finished step, in the calling thread.

    Returns:
        One trace per flow, in the order of the flows.
    """
    replies: list[Reply] | None = None
    with contextlib.closing(lock_step(_checked(flows), on_step)) as rounds:
        while True:
            try:
                joined = rounds.send(replies)
            except StopIteration as done:
                return cast(list[Traced[R]], done.value)
            replies = [_answer(ask) for ask in joined]


async def arun_many(flows: Iterable[Flow[R]], *, on_step: OnStep | None = None) -> list[Traced[R]]:
    """Run flows in lock step; the calls of one round run concurrently.

    The event loop is never blocked. The flows' own code, such as splitting a hundred texts into
    sentences, runs in worker threads, one at a time; so does a port without an async call. All of
    it runs in one copy of the caller's context: it sees the caller's context variables, and a
    variable that a flow sets stays set for the rest of the flow and for the calls it asks for.

    For a deadline, wait under ``asyncio.timeout``: pending calls are cancelled and the flows
    closed. A thread that is already running is left to finish; if it was running the flows' own
    code, it closes them afterwards.

    Args:
        flows: The flows.
        on_step: Called with the flow's index and each finished step, in a worker thread.

    Returns:
        One trace per flow, in the order of the flows.
    """
    with contextlib.closing(Rounds(_checked(flows), on_step)) as rounds:
        replies: list[Reply] | None = None
        while (joined := await asyncio.to_thread(rounds.advance, replies)) is not None:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(_aanswer(ask), context=rounds.context.copy())
                    for ask in joined
                ]
            replies = [task.result() for task in tasks]
        return rounds.traces


def _answer(ask: Ask) -> Reply:
    began = time.perf_counter()
    try:
        if ask.port.call is None:
            raise PortError(f"port {ask.port.name!r} has only an async call: use arun or arun_many")
        return _matched(ask, ask.port.call(ask.items)), time.perf_counter() - began
    except Exception as error:  # noqa: BLE001 - the flow that asked may recover
        return error, time.perf_counter() - began


async def _aanswer(ask: Ask) -> Reply:
    if ask.port.acall is None:
        return await asyncio.to_thread(_answer, ask)
    began = time.perf_counter()
    try:
        return _matched(ask, await ask.port.acall(ask.items)), time.perf_counter() - began
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        cancelled = PortError(f"port {ask.port.name!r} cancelled its own call")  # nobody else did
        cancelled.__cause__ = error
        return cancelled, time.perf_counter() - began
    except Exception as error:  # noqa: BLE001
        return error, time.perf_counter() - began


def _matched(ask: Ask, answers: Any) -> list[Any]:
    name, count = ask.port.name, len(ask.items)
    try:
        found = list(answers)
    except TypeError:
        kind = type(answers).__name__
        raise PortError(f"port {name!r} gave {kind}, not a list of {count} answers") from None
    wrong = f"port {name!r} got {count} items but gave {len(found)} answers"
    raise_if(len(found) != count, PortError, wrong)
    return found


def _checked(flows: Iterable[Flow[R]]) -> list[Flow[R]]:
    allowed = "a flow: the generator that method(question, ports) gives"
    kind = cast(Any, Generator)
    return [check_is(f"flows[{i}]", flow, kind, allowed) for i, flow in enumerate(flows)]
