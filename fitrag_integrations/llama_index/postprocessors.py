"""Postprocessors: rerank nodes, and cut them down (FIT-RAG, section 4.4; CRAG, section 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from fitrag_integrations.llama_index.base.options import (
    ReducerOptions,
    RefinerOptions,
    RerankerOptions,
)
from fitrag_integrations.methods.compose.fitted import FromFitted

if TYPE_CHECKING:
    from fitrag_integrations.llama_index.base.options import RefinerKeywords


class BiLabelReranker(FromFitted, RerankerOptions):
    """Postprocessor that keeps the nodes that answer and that the model can use, best first
    (FIT-RAG).

    Nodes come back as copies with ``relevance_score``, ``has_answer`` and ``llm_prefer``, in [0,
    1], in their metadata. A node without text is dropped, but an image stays, behind the others.

    Args:
        top_n: Nodes kept; None keeps all.
        scorer: Object with ``score(pairs)``; None is the bundled one.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        min_score: Lowest sum of both labels kept, in [0, 2]; None keeps all.

    The other options are those of ``fitrag_integrations.methods.FitRag``.

    Example:
        >>> reranker = BiLabelReranker(top_n=5)
        >>> index.as_query_engine(similarity_top_k=50, node_postprocessors=[reranker])
    """


class SubDocumentCompressor(FromFitted, ReducerOptions):
    """Postprocessor that replaces each node by its best sentences, within a token budget (FIT-RAG).

    The pieces are new nodes with true offsets, best first. An image without text stays, behind
    them.

    Args:
        max_tokens: Budget of the numbered titles and texts of FIT-RAG's prompt; other metadata that
            a node shows to a language model is not counted.
        scorer: Object with ``score(pairs)``; None is the bundled one.

    The other options are those of ``fitrag_integrations.methods.TokenReducer``.

    Example:
        >>> compressor = SubDocumentCompressor(max_tokens=800)
        >>> index.as_query_engine(similarity_top_k=50, node_postprocessors=[compressor])
    """


class KnowledgeRefiner(FromFitted, RefinerOptions):
    """Postprocessor that replaces nodes by their relevant strips, in the order of the documents
    (CRAG).

    The strips are new nodes with true offsets; their score is the evaluator's grade, mapped to [0,
    1]. An image without text stays, behind the strips.

    Args:
        evaluator: Object with ``evaluate(pairs)``; None is the bundled one.
        options: Those of ``fitrag_integrations.methods.Refiner``.

    Example:
        >>> index.as_query_engine(node_postprocessors=[KnowledgeRefiner(top_n=5)])
    """

    def __init__(self, evaluator: object = None, **options: Unpack[RefinerKeywords]) -> None:
        super().__init__(evaluator=evaluator, **options)
