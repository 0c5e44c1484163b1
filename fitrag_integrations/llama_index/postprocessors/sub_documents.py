"""Reduce nodes to their best few sentences (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import ReducerOptions
from fitrag_integrations.methods.compose.fitted import FromFitted


class SubDocumentCompressor(FromFitted, ReducerOptions):
    """Replace each node by its best sentences, best first, within a token budget.

    The pieces are new nodes with true offsets. ``max_tokens`` counts the numbered list of titles
    and texts of FIT-RAG's prompt; other metadata that a node shows to a language model comes on
    top. ``scorer`` None is the embedded one, loaded at first use; any object with ``score(pairs)``
    will do. The other options are those of ``fitrag_integrations.methods.TokenReducer``. An image
    without text stays, behind the pieces.
    """
