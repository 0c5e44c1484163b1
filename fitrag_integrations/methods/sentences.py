"""Name the built-in sentence splitter, which FIT-RAG's sub-documents are cut with."""

from __future__ import annotations

from fitrag_integrations._sentences import MAX_CHARACTERS, MAX_WORDS, split_sentences

__all__ = ["MAX_CHARACTERS", "MAX_WORDS", "split_sentences"]
