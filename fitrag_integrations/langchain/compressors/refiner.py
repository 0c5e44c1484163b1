"""Refine documents to the strips that are about the question (CRAG, section 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.langchain.base.compressor import CuttingCompressor
from fitrag_integrations.langchain.base.fields import options
from fitrag_integrations.langchain.base.fitting import FromFitted
from fitrag_integrations.methods.plain import Refining

if TYPE_CHECKING:
    RefinerOptions = Refining  # so that type checkers and editors know the fields
else:
    RefinerOptions = options(Refining)


class KnowledgeRefiner(FromFitted, RefinerOptions, CuttingCompressor):  # type: ignore[misc]
    """Cut documents into strips and keep the best, in the order of the documents.

    Works in every host of LangChain compressors::

        ContextualCompressionRetriever(base_retriever=r, base_compressor=KnowledgeRefiner())
    """
