"""Run flows on an event loop with their own work, such as cutting texts, done in threads.

The drivers of ``flow`` advance a flow on the loop itself, and cutting a hundred passages into
sentences takes a tenth of a second. Here each stretch of a flow between two asks is an ask too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fitrag_integrations import flow as drivers
from fitrag_integrations.flow import Flow, Port, Traced

R = TypeVar("R")


async def arun(flow: Flow[R]) -> Traced[R]:
    """Run one flow to its end."""
    return (await arun_many([flow]))[0]


async def arun_many(flows: Sequence[Flow[R]]) -> list[Traced[R]]:
    """Run flows in lock step; the steps told are their own asks alone."""
    traces = await drivers.arun_many([_in_threads(flow) for flow in flows])
    return [
        replace(traced, steps=tuple(s for s in traced.steps if s.port != _WORK.name))
        for traced in traces
    ]


@dataclass(frozen=True)
class _Ended:
    value: Any


def _in_threads(flow: Flow[R]) -> Flow[R]:
    reply: Any = None
    while True:
        (reached,) = yield from _WORK.ask([(flow, reply)])
        if isinstance(reached, _Ended):
            return reached.value  # type: ignore[no-any-return]
        try:
            reply = yield reached
        except Exception as error:  # the flow may recover
            reply = error


def _advance(moves: Sequence[tuple[Flow[Any], Any]]) -> list[Any]:
    """Give the next ask of each flow, its end, or what it raised."""
    return [_next(flow, reply) for flow, reply in moves]


def _next(flow: Flow[Any], reply: Any) -> Any:
    try:
        return flow.throw(reply) if isinstance(reply, Exception) else flow.send(reply)
    except StopIteration as done:
        return _Ended(done.value)
    except Exception as error:  # raised in its own question alone
        return error


_WORK: Port[Any, Any] = Port("work", _advance)
