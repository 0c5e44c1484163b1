"""Retrieve in rounds, each with what the last one had written: ITRG as a retriever."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import QueryBundle

from fitrag_integrations.flow import Flow
from fitrag_integrations.llama_index.base.options import ITRGOptions
from fitrag_integrations.methods.defaults import EMBEDDED_GENERATOR
from fitrag_integrations.types import Context


class ITRGRetriever(ITRGOptions):
    """Retriever that alternates retrieval and generation, and returns the last round's nodes
    (ITRG).

    Use it for questions whose second fact can only be found with the first. ``last_run`` has every
    round.

    Args:
        base: Retriever of every round.
        llm: Language model that writes between rounds; None is the bundled one, a stand-in only.

    The other options are those of ``fitrag_integrations.methods.ITRG``.

    Example:
        >>> retriever = ITRGRetriever(index.as_retriever(), llm=llm, rounds=3)
        >>> nodes = retriever.retrieve("Where was the director of Amarcord born?")
    """

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; equal asks of one call join."""
        ports = self._caller.ports(bundles, llm=EMBEDDED_GENERATOR)
        return [self._method(bundle.query_str, ports) for bundle in bundles]
