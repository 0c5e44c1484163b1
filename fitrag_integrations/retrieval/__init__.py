"""Dense retrieval: an encoder, a FAISS index on disk, and readers of a corpus.

Names load on first use: importing this package loads neither torch nor faiss.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fitrag_integrations.retrieval._vectors import TextEncoder, passage_text
    from fitrag_integrations.retrieval.documents import read_corpus
    from fitrag_integrations.retrieval.encoder import Encoder
    from fitrag_integrations.retrieval.index import FaissIndex
    from fitrag_integrations.retrieval.retriever import IndexRetriever

_MODULE_OF = {
    "Encoder": "encoder",
    "FaissIndex": "index",
    "IndexRetriever": "retriever",
    "TextEncoder": "_vectors",
    "passage_text": "_vectors",
    "read_corpus": "documents",
}

__all__ = [
    "Encoder",
    "FaissIndex",
    "IndexRetriever",
    "TextEncoder",
    "passage_text",
    "read_corpus",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
