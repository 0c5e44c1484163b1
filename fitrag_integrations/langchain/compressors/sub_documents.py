"""Reduce documents to their best windows of sentences (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from fitrag_integrations.langchain.base.compressor import CuttingCompressor
from fitrag_integrations.langchain.base.options import ReducerOptions
from fitrag_integrations.methods.compose.fitted import FromFitted


class SubDocumentCompressor(FromFitted, ReducerOptions, CuttingCompressor):
    """Cut each document down to its best sentences, within a budget of tokens.

    Documents come back best first. The budget is counted on the numbered and titled lines that a
    prompt of this package shows.
    """
