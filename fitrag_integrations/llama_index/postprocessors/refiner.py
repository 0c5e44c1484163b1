"""Refine nodes to their knowledge strips (CRAG, section 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from fitrag_integrations.llama_index.base.options import RefinerOptions
from fitrag_integrations.methods.compose.fitted import FromFitted

if TYPE_CHECKING:
    from fitrag_integrations.llama_index.base.options import RefinerKeywords


class KnowledgeRefiner(FromFitted, RefinerOptions):
    """Replace nodes by the strips of a few sentences that matter, in the order of the documents.

    The strips are new nodes with true offsets; their score is the evaluator's grade, brought to
    [0, 1]. ``evaluator`` None is the embedded one, loaded at first use; any object with
    ``evaluate(pairs)`` will do. The options are those of ``fitrag_integrations.methods.Refiner``.
    An image without text stays, behind the strips.
    """

    def __init__(self, evaluator: object = None, **options: Unpack[RefinerKeywords]) -> None:
        super().__init__(evaluator=evaluator, **options)
