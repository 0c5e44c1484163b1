"""What one step of a paper makes of given passages: the compressors of both frameworks.

Each is a method's step with the model it asks: ``context`` ends in what is kept, ``explained`` in
that and what is dropped, with the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.methods.explain.explaining import (
    explained_reduction,
    explained_refinement,
)
from fitrag_integrations.methods.fitrag.reducer import TokenReducer, rerank, score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts


@dataclass(frozen=True, kw_only=True)
class Reranking:
    """Rerank whole passages by the two labels (FIT-RAG, sections 4.2 and 4.4.1)."""

    top_n: int | None = 10
    weight: float = 0.5
    min_score: float | None = None
    scorer: Scorer | None = None

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        score_port(self.scorer)
        if self.top_n is not None:
            check_whole("top_n", self.top_n, low=1)
        check_number("weight", self.weight, low=0.0, high=1.0)
        if self.min_score is not None:
            check_number("min_score", self.min_score, low=0.0, high=2.0)

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the best passages, best first."""
        numbers = {"weight": self.weight, "top_n": self.top_n}
        if self.min_score is not None:
            numbers["min_score"] = self.min_score
        kept = yield from rerank(
            question,
            passages,
            score_port(self.scorer),
            top_n=self.top_n,
            weight=self.weight,
            min_score=self.min_score,
        )
        return Context(question, tuple(kept), method="rerank", details=numbers)


@dataclass(frozen=True, kw_only=True)
class Reducing(TokenReducer):
    """Reduce passages to their best sentences (FIT-RAG, section 4.4.2)."""

    scorer: Scorer | None = None

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        super().__post_init__()
        score_port(self.scorer)

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the windows kept, best first."""
        kept, notes = yield from self(question, passages, score_port(self.scorer))
        return Context(question, tuple(kept), notes=tuple(notes), method="compress")

    def explained(self, question: str, passages: Sequence[Passage]) -> Flow[Compression]:
        """Give the flow that ends in the windows kept and dropped, with the reasons."""
        return explained_reduction(question, passages, self, score_port(self.scorer))

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts as a prompt shows them."""
        return self.counter(render_excerpts(excerpts))


@dataclass(frozen=True)
class Refining(Refiner):
    """Refine passages to the strips that are about the question (CRAG, section 4.4)."""

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the strips kept, in document order."""
        kept = yield from self(question, passages)
        return Context(
            question, kept.excerpts, notes=kept.notes, method="refine", details=kept.details
        )

    def explained(self, question: str, passages: Sequence[Passage]) -> Flow[Compression]:
        """Give the flow that ends in the strips kept and dropped, with the reasons."""
        return explained_refinement(question, passages, self)
