"""Reduce documents to their best windows of sentences (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.langchain.base.compressor import CuttingCompressor
from fitrag_integrations.langchain.base.fields import options
from fitrag_integrations.langchain.base.fitting import FromFitted
from fitrag_integrations.methods.plain import Reducing

if TYPE_CHECKING:
    ReducerOptions = Reducing  # so that type checkers and editors know the fields
else:
    ReducerOptions = options(Reducing)


class SubDocumentCompressor(FromFitted, ReducerOptions, CuttingCompressor):  # type: ignore[misc]
    """Cut each document down to its best sentences, within a budget of tokens.

    Documents come back best first. The budget is counted on the numbered and titled lines that a
    prompt of this package shows.
    """
