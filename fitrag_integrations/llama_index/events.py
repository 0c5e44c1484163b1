"""What these components tell LlamaIndex's instrumentation besides the framework's own events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.schema import QueryBundle
from llama_index_instrumentation import get_dispatcher  # the core re-exports both
from llama_index_instrumentation.base import BaseEvent

dispatcher = get_dispatcher(__name__)


class CompressionEvent(BaseEvent):
    """Report a compression: numbers of nodes and, by the compressor's counter, of tokens."""

    nodes_in: float
    nodes_out: float
    tokens_in: float
    tokens_out: float

    @classmethod
    def class_name(cls) -> str:
        """Name the event in serialised form."""
        return "CompressionEvent"


class RetrievalSkippedEvent(BaseEvent):
    """Report a question that was not retrieved for, or whose passages were set aside.

    ``p_known`` in [0, 1] and ``threshold`` are None where the gate gave none.
    """

    query: str
    p_known: float | None = None
    threshold: float | None = None
    why: str = ""

    @classmethod
    def class_name(cls) -> str:
        """Name the event in serialised form."""
        return "RetrievalSkippedEvent"


def tell_retrieving(bundles: Sequence[QueryBundle]) -> None:
    """Report the start of each query of a batch, as ``retrieve`` does for one."""
    for bundle in bundles:
        dispatcher.event(RetrievalStartEvent(str_or_query_bundle=bundle))


def tell_retrieved(bundles: Sequence[QueryBundle], found: Sequence[Any]) -> None:
    """Report the end of each query of a batch that did not fail."""
    for bundle, nodes in zip(bundles, found, strict=True):
        if not isinstance(nodes, Exception):
            dispatcher.event(RetrievalEndEvent(str_or_query_bundle=bundle, nodes=nodes))


def tell_asked(bundles: Sequence[QueryBundle]) -> None:
    """Report the start of each query of a batch, as ``query`` does for one."""
    for bundle in bundles:
        dispatcher.event(QueryStartEvent(query=bundle))


def tell_answered(bundles: Sequence[QueryBundle], responses: Sequence[Any]) -> None:
    """Report the end of each query of a batch that did not fail."""
    for bundle, response in zip(bundles, responses, strict=True):
        if not isinstance(response, Exception):
            dispatcher.event(QueryEndEvent(query=bundle, response=response))
