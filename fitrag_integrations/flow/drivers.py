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
from contextvars import copy_context
from typing import Any, TypeVar

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow.ask import Answers, Ask, Flow, Port
from fitrag_integrations.flow.lockstep import OnStep, Reply, Rounds
from fitrag_integrations.flow.trace import Step, Traced

__all__ = ["Ask", "Flow", "Port", "Step", "Traced", "arun", "arun_many", "run", "run_many"]

R = TypeVar("R")


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
    """Run flows in lock step; results in the order of the flows.

    ``on_step`` is called with the flow's index and each finished step, in the calling thread.
    """
    with contextlib.closing(Rounds(_checked(flows), on_step)) as rounds:
        replies: list[Reply] | None = None
        while (joined := rounds.advance(replies)) is not None:
            replies = [_answer(ask) for ask in joined]
        return rounds.traces


async def arun_many(flows: Iterable[Flow[R]], *, on_step: OnStep | None = None) -> list[Traced[R]]:
    """Run flows in lock step; the calls of one round run side by side.

    The event loop stays free: the flows' own work, which may be to cut a hundred texts into
    sentences, is done in worker threads, one at a time, and so is a port without an async call.
    ``on_step`` is called in such a thread too. All of it runs in one copy of the caller's
    context: context variables are there, and what a flow sets stays set in its next stretch and
    in the calls it asks for.

    For a deadline, wait under ``asyncio.timeout``: pending calls are cancelled and the flows
    closed. A thread already running is left to end; where it was at the flows' own work, it
    closes them as soon as that is done.
    """
    context = copy_context()
    with contextlib.closing(Rounds(_checked(flows), on_step, context)) as rounds:
        replies: list[Reply] | None = None
        while (joined := await asyncio.to_thread(rounds.advance, replies)) is not None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_aanswer(ask), context=context.copy()) for ask in joined]
            replies = [task.result() for task in tasks]
        return rounds.traces


def _answer(ask: Ask) -> Reply:
    began = time.perf_counter()
    answers: Answers
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
    answers: Answers
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
