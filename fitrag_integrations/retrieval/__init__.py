"""Dense retrieval: an encoder, a FAISS index on disk, and readers of a corpus.

Names load on first use: importing this package loads neither torch nor faiss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.retrieval.corpus.documents import read_corpus
    from fitrag_integrations.retrieval.corpus.files import FileNote
    from fitrag_integrations.retrieval.encoder import Encoder, TextEncoder, passage_text
    from fitrag_integrations.retrieval.index import FaissIndex, IndexRetriever
    from fitrag_integrations.retrieval.question_bank import QuestionBank

_MODULE_OF = {
    "Encoder": "encoder",
    "FaissIndex": "index",
    "FileNote": "corpus.files",
    "IndexRetriever": "index",
    "QuestionBank": "question_bank",
    "TextEncoder": "encoder",
    "passage_text": "encoder",
    "read_corpus": "corpus.documents",
}

__all__ = [
    "Encoder",
    "FaissIndex",
    "FileNote",
    "IndexRetriever",
    "QuestionBank",
    "TextEncoder",
    "passage_text",
    "read_corpus",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
