"""The papers' methods as pure Python flows; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations._lazy import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.fitrag import FitRag, compress, rerank
    from fitrag_integrations.methods.prompts import PromptTemplate
    from fitrag_integrations.methods.sentences import split_sentences
    from fitrag_integrations.methods.tokens import approximate_tokens, tiktoken_counter

_MODULE_OF = {
    "FitRag": "fitrag",
    "PromptTemplate": "prompts",
    "approximate_tokens": "tokens",
    "compress": "fitrag",
    "rerank": "fitrag",
    "split_sentences": "sentences",
    "tiktoken_counter": "tokens",
}

__all__ = [
    "FitRag",
    "PromptTemplate",
    "approximate_tokens",
    "compress",
    "rerank",
    "split_sentences",
    "tiktoken_counter",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
