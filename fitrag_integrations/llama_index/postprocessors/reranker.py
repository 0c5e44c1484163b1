"""Rerank nodes by FIT-RAG's two labels (section 4.4.1)."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import RerankerOptions
from fitrag_integrations.methods.compose.fitted import FromFitted


class BiLabelReranker(FromFitted, RerankerOptions):
    """Keep the nodes that hold the answer and that the language model can use, best first.

    ``top_n`` nodes, None for all, come back as copies with ``relevance_score``, ``has_answer`` and
    ``llm_prefer`` in [0, 1] in their metadata. One without text cannot be scored and does not come
    back, but for an image, which stays behind the others. ``weight`` is that of ``llm_prefer``
    against ``has_answer``; what their sum, in [0, 2], leaves below ``min_score`` goes. ``scorer``
    None is the embedded one, loaded at first use; any object with ``score(pairs)`` will do.
    """
