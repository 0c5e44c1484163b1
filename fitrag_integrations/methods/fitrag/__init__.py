"""FIT-RAG (arXiv 2403.14374): bi-label reranking, self-knowledge, sub-document compression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.fitrag.method import (
        FitRag,
        compress,
        rerank,
        score_port,
        usable,
    )

__all__ = ["FitRag", "compress", "rerank", "score_port", "usable"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "method"))
