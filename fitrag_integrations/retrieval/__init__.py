"""Dense retrieval: an encoder, a FAISS index on disk, and readers of a corpus.

Names load on first use: importing this package loads neither torch nor faiss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.retrieval.corpus.documents import read_corpus as read_corpus
    from fitrag_integrations.retrieval.corpus.files import FileNote as FileNote
    from fitrag_integrations.retrieval.encoder import Encoder as Encoder
    from fitrag_integrations.retrieval.encoder import TextEncoder as TextEncoder
    from fitrag_integrations.retrieval.encoder import passage_text as passage_text
    from fitrag_integrations.retrieval.index import FaissIndex as FaissIndex
    from fitrag_integrations.retrieval.index import IndexRetriever as IndexRetriever
    from fitrag_integrations.retrieval.question_bank import QuestionBank as QuestionBank

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Encoder": "encoder",
        "FaissIndex": "index",
        "FileNote": "corpus.files",
        "IndexRetriever": "index",
        "QuestionBank": "question_bank",
        "TextEncoder": "encoder",
        "passage_text": "encoder",
        "read_corpus": "corpus.documents",
    },
)
