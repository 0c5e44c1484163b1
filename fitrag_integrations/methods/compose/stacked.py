"""Put one method in front of another (the idea of Self-CRAG, CRAG, appendix B.3).

``Ports(retrieve=MethodPort(Crag(), ports))`` gives any method what CRAG kept in place of what was
retrieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitrag_integrations.flow import Flow, Port, run_many
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Excerpt, Passage


class MethodPort(Port[str, Sequence[Passage]]):
    """Answer each query with the excerpts ``method`` keeps for it, asking ``ports``.

    The inner method's asks are those of the outer flow: its driver answers them, joins them with
    other questions', and shows them in the trace. Notes and decisions of the inner method are not
    handed on. An error of the inner flow is one of the outer flow's.
    """

    def __init__(self, method: Method, ports: Ports, *, name: str = "retrieve") -> None:
        super().__init__(name, _Running(method, ports))

    def ask(self, items: Sequence[str]) -> Flow[list[Sequence[Passage]]]:
        """Run the method inside the asking flow, query by query."""
        inner = self.call
        assert isinstance(inner, _Running)
        found: list[Sequence[Passage]] = []
        for query in items:
            context = yield from inner.method(query, inner.ports)
            found.append(_passages(context))
        return found


def as_passage(excerpt: Excerpt) -> Passage:
    """Make a passage of an excerpt, with the source and the metadata of the one it is cut from.

    ``source_id``, ``start_index``, ``end_index`` and ``relevance_score`` are added to these.
    """
    whole = excerpt.passage
    place = {
        "source_id": whole.id,
        "start_index": excerpt.start,
        "end_index": excerpt.end,
        "relevance_score": excerpt.score,
    }
    metadata = {**whole.metadata, **place}
    return replace(excerpt.as_passage(), source=whole.source, metadata=metadata)


def _passages(context: Context) -> list[Passage]:
    return [as_passage(excerpt) for excerpt in context.excerpts]


@dataclass(frozen=True)
class _Running:
    """Run the method for whoever calls the port outside a flow."""

    method: Method
    ports: Ports

    def __call__(self, queries: Sequence[str]) -> list[list[Passage]]:
        traces = run_many([self.method(query, self.ports) for query in queries])
        return [_passages(trace.value) for trace in traces]
