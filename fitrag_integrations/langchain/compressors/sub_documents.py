"""Reduce documents to their best windows of sentences (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.compressor import CuttingCompressor
from fitrag_integrations.langchain.base.fields import AnyModel, Settings, options
from fitrag_integrations.langchain.base.fitting import FromFitted
from fitrag_integrations.methods.explain.compression import Compression
from fitrag_integrations.methods.explain.explaining import explained_reduction
from fitrag_integrations.methods.fitrag.reducer import ScorePort, TokenReducer, score_port
from fitrag_integrations.types import Context, Passage

if TYPE_CHECKING:
    ReducerOptions = TokenReducer  # so that type checkers and editors know the fields
else:
    ReducerOptions = options(TokenReducer)


class SubDocumentCompressor(FromFitted, ReducerOptions, Settings, CuttingCompressor):  # type: ignore[misc]
    """Cut each document down to its best window of sentences, within a budget of tokens.

    Documents come back best first. The budget is counted on the numbered and titled lines that a
    prompt of this package shows.
    """

    scorer: AnyModel = None
    """An object with ``score(pairs)``, or a ``BaseCrossEncoder``; None is the embedded scorer."""

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Give the flow that ends in the windows kept, best first."""
        kept, notes = yield from self._reducer()(query, passages, self._score())
        return Context(query, tuple(kept), notes=tuple(notes), method="compress")

    def explained(self, query: str, passages: Sequence[Passage]) -> Flow[Compression]:
        """Give the flow that ends in the windows kept and dropped, with the reasons."""
        return explained_reduction(query, passages, self._reducer(), self._score())

    def _reducer(self) -> TokenReducer:
        return TokenReducer(**self.settings())

    def _score(self) -> ScorePort:
        return score_port(self.scorer)

    @model_validator(mode="after")
    def _check_scorer(self) -> Self:
        """Tell of a wrong scorer here rather than at the first question."""
        self._score()
        return self
