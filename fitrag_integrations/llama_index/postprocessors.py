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
    """Keep the nodes that hold the answer and that the language model can use, best first.

    ``top_n`` nodes, None for all, come back as copies with ``relevance_score``, ``has_answer`` and
    ``llm_prefer`` in [0, 1] in their metadata. One without text cannot be scored and does not come
    back, but for an image, which stays behind the others. ``weight`` is that of ``llm_prefer``
    against ``has_answer``; what their sum, in [0, 2], leaves below ``min_score`` goes. ``scorer``
    None is the embedded one, loaded at first use; any object with ``score(pairs)`` will do.
    """


class SubDocumentCompressor(FromFitted, ReducerOptions):
    """Replace each node by its best sentences, best first, within a token budget.

    The pieces are new nodes with true offsets. ``max_tokens`` counts the numbered list of titles
    and texts of FIT-RAG's prompt; other metadata that a node shows to a language model comes on
    top. ``scorer`` None is the embedded one, loaded at first use; any object with ``score(pairs)``
    will do. The other options are those of ``fitrag_integrations.methods.TokenReducer``. An image
    without text stays, behind the pieces.
    """


class KnowledgeRefiner(FromFitted, RefinerOptions):
    """Replace nodes by the strips of a few sentences that matter, in the order of the documents.

    The strips are new nodes with true offsets; their score is the evaluator's grade, brought to
    [0, 1]. ``evaluator`` None is the embedded one, loaded at first use; any object with
    ``evaluate(pairs)`` will do. The options are those of ``fitrag_integrations.methods.Refiner``.
    An image without text stays, behind the strips.
    """

    def __init__(self, evaluator: object = None, **options: Unpack[RefinerKeywords]) -> None:
        super().__init__(evaluator=evaluator, **options)
