"""Refine documents to the strips that are about the question (CRAG, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.compressor import CuttingCompressor
from fitrag_integrations.langchain.base.fields import Settings, options
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.methods.explain.explaining import explained_refinement
from fitrag_integrations.types import Context, Passage

if TYPE_CHECKING:
    RefinerOptions = Refiner  # so that type checkers and editors know the fields
else:
    RefinerOptions = options(Refiner)


class KnowledgeRefiner(RefinerOptions, Settings, CuttingCompressor):  # type: ignore[misc]
    """Cut documents into strips and keep the best, in the order of the documents.

    Works in every host of LangChain compressors::

        ContextualCompressionRetriever(base_retriever=r, base_compressor=KnowledgeRefiner())
    """

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the strips kept, in document order."""
        kept = yield from self._refiner()(query, passages)
        return Context(
            query, kept.excerpts, notes=kept.notes, method="refine", details=kept.details
        )

    def explained(self, query: str, passages: Sequence[Passage]) -> Flow[Compression]:
        """Give the flow that ends in the strips kept and dropped, with the reasons."""
        return explained_refinement(query, passages, self._refiner())

    def _refiner(self) -> Refiner:
        return Refiner(**self.settings())
