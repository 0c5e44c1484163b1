"""FIT-RAG (arXiv 2403.14374): bi-label reranking, self-knowledge, sub-document compression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.fitrag.functional import compress as compress
    from fitrag_integrations.methods.fitrag.functional import rerank as rerank
    from fitrag_integrations.methods.fitrag.method import FitRag as FitRag
    from fitrag_integrations.methods.fitrag.options import score_port as score_port

_MODULE_OF = {
    "FitRag": "method",
    "compress": "functional",
    "rerank": "functional",
    "score_port": "options",
}

__all__ = list(_MODULE_OF)

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
