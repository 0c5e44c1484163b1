"""Run flows on an event loop with their own work, above all cutting texts, done in threads.

The drivers of ``flow`` answer asks beside the loop but advance a flow on it, and cutting a
hundred passages into sentences holds a loop for a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fitrag_integrations import flow as drivers
from fitrag_integrations.flow import Flow, Port, Traced

R = TypeVar("R")


async def arun(flow: Flow[R]) -> Traced[R]:
    """Run one flow without holding the event loop."""
    return (await arun_many([flow]))[0]


async def arun_many(flows: Iterable[Flow[R]]) -> list[Traced[R]]:
    """Run flows in lock step without holding the event loop."""
    traced = await drivers.arun_many(map(_threaded, flows))
    own = _WORK.name
    return [
        replace(each, steps=tuple(step for step in each.steps if step.port != own))
        for each in traced
    ]


@dataclass(frozen=True)
class _Ended:
    value: Any


def _threaded(flow: Flow[R]) -> Flow[R]:
    """Make each stretch of a flow's work an ask of its own, which a thread answers."""
    reply: Any = None
    while True:
        (given,) = yield from _WORK.ask([(flow, reply)])
        if isinstance(given, _Ended):
            ended: R = given.value
            return ended
        try:
            reply = yield given
        except Exception as error:  # noqa: BLE001 - the flow itself may recover
            reply = error


def _advance_all(items: Sequence[tuple[Flow[Any], Any]]) -> list[Any]:
    return [_advance(flow, reply) for flow, reply in items]


def _advance(flow: Flow[Any], reply: Any) -> Any:
    """Give a flow's next ask, its end, or the exception it raised."""
    try:
        return flow.throw(reply) if isinstance(reply, Exception) else flow.send(reply)
    except StopIteration as done:
        return _Ended(done.value)
    except Exception as error:  # noqa: BLE001 - of this flow alone
        return error


_WORK: Port[tuple[Flow[Any], Any], Any] = Port("_work", _advance_all)
