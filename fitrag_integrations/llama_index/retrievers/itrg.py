"""Retrieve in rounds, each with what the last one had written: ITRG as a retriever."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import QueryBundle

from fitrag_integrations.flow import Flow
from fitrag_integrations.llama_index.base.options import ITRGOptions
from fitrag_integrations.methods.defaults import EMBEDDED_GENERATOR
from fitrag_integrations.types import Context


class ITRGRetriever(ITRGOptions):
    """Let retrieval and generation take turns, and give the nodes of the last round.

    ``llm`` writes; None is the small model of the package, which is a stand-in only. The other
    options are those of ``fitrag_integrations.methods.ITRG``. ``last_run`` has every round.
    """

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; equal asks of one call join."""
        ports = self._caller.ports(bundles, llm=EMBEDDED_GENERATOR)
        return [self._method(bundle.query_str, ports) for bundle in bundles]
