"""Write a method once, as a generator that asks; run it sync or async, alone or in lock step.

A flow yields ``Ask`` objects and is sent the answers, one per item and in order. The drivers
below answer it: ``run`` and ``arun`` for one flow, ``run_many`` and ``arun_many`` for several,
where in each round all asks to equal ports become one call. A test can drive a flow by hand with
``send`` and needs no driver at all.

What can go wrong, and who hears of it:

- a port raises: the error is raised inside the flow, which may recover;
- a call that several flows share raises, or gives the wrong number of answers: it is repeated
  flow by flow, so that only the guilty one fails;
- an answer is itself an exception: it is raised inside the flow that asked for it, alone;
- a flow raises: its ``Traced`` holds the error and the other flows go on;
- the driver is stopped, cancelled or timed out: pending calls are cancelled, all flows closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from fitrag_integrations._ask import Ask, Flow, Port
from fitrag_integrations._lockstep import OnStep, Reply, lock_step
from fitrag_integrations._trace import Step, Traced
from fitrag_integrations.errors import InputError, PortError

__all__ = ["Ask", "Flow", "Port", "Step", "Traced", "arun", "arun_many", "run", "run_many"]

R = TypeVar("R")


def run(flow: Flow[R], *, on_step: OnStep | None = None) -> Traced[R]:
    """Run one flow to its end."""
    return run_many([flow], on_step=on_step)[0]


async def arun(flow: Flow[R], *, on_step: OnStep | None = None) -> Traced[R]:
    """Run one flow to its end without blocking the event loop."""
    return (await arun_many([flow], on_step=on_step))[0]


def run_many(flows: Iterable[Flow[R]], *, on_step: OnStep | None = None) -> list[Traced[R]]:
    """Run flows in lock step; results in the order of the flows.

    ``on_step`` is called with the flow's index and each finished step, in the calling thread.
    """
    rounds = lock_step(_checked(flows), on_step)
    with contextlib.closing(rounds):
        replies: list[Reply] | None = None
        while True:
            try:
                joined = rounds.send(replies)
            except StopIteration as done:
                return list(done.value)
            replies = [_answer(ask) for ask in joined]


async def arun_many(flows: Iterable[Flow[R]], *, on_step: OnStep | None = None) -> list[Traced[R]]:
    """Run flows in lock step; the calls of one round run side by side.

    A port without an async call runs in a thread. For a deadline, wait under
    ``asyncio.timeout``: pending calls are cancelled, a thread already running is left to end.
    """
    rounds = lock_step(_checked(flows), on_step)
    with contextlib.closing(rounds):
        replies: list[Reply] | None = None
        while True:
            try:
                joined = rounds.send(replies)
            except StopIteration as done:
                return list(done.value)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_aanswer(ask)) for ask in joined]
            replies = [task.result() for task in tasks]


def _answer(ask: Ask) -> Reply:
    began = time.perf_counter()
    answers: list[Any] | Exception
    try:
        if ask.port.call is None:
            raise PortError(f"port {ask.port.name!r} has only an async call: use arun or arun_many")
        answers = _matched(ask, ask.port.call(ask.items))
    except Exception as error:  # noqa: BLE001 - the flow that asked may recover
        answers = error
    return answers, time.perf_counter() - began


async def _aanswer(ask: Ask) -> Reply:
    if ask.port.acall is None:
        return await asyncio.to_thread(_answer, ask)
    began = time.perf_counter()
    answers: list[Any] | Exception
    try:
        answers = _matched(ask, await ask.port.acall(ask.items))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        answers = PortError(f"port {ask.port.name!r} cancelled its own call")  # nobody else did
        answers.__cause__ = error
    except Exception as error:  # noqa: BLE001
        answers = error
    return answers, time.perf_counter() - began


def _matched(ask: Ask, answers: Any) -> list[Any]:
    name, count = ask.port.name, len(ask.items)
    try:
        found = list(answers)
    except TypeError:
        kind = type(answers).__name__
        raise PortError(f"port {name!r} gave {kind}, not a list of {count} answers") from None
    if len(found) != count:
        raise PortError(f"port {name!r} got {count} items but gave {len(found)} answers")
    return found


def _checked(flows: Iterable[Flow[R]]) -> list[Flow[R]]:
    checked = list(flows)
    for i, flow in enumerate(checked):
        if not isinstance(flow, Generator):
            allowed = "a flow: the generator that method(question, ports) gives"
            raise InputError.of(f"flows[{i}]", given=flow, allowed=allowed)
    return checked
