"""Compressors: rerank documents, and cut them down (FIT-RAG, section 4.4; CRAG, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import Flow, arun, run
from fitrag_integrations.langchain.base.compressor import FlowCompressor
from fitrag_integrations.langchain.base.convert import to_passage
from fitrag_integrations.langchain.base.options import (
    ReducerOptions,
    RefinerOptions,
    RerankerOptions,
)
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.fitrag.scoring import score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.values.score import labels_of


class BiLabelCrossEncoder(BaseCrossEncoder):
    """Cross-encoder that combines the two labels of a pair to one score in [0, 1].

    Args:
        scorer: Object with ``score(pairs)``; None is the bundled one.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].

    Example:
        >>> CrossEncoderReranker(model=BiLabelCrossEncoder(), top_n=5)
    """

    def __init__(self, scorer: Scorer | None = None, *, weight: float = DEFAULTS.weight) -> None:
        self.scorer = scorer
        self.weight = check_number("weight", weight, low=0.0, high=1.0)
        score_port(scorer)  # rejects a wrong object here

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("scorer", "weight"):
            raise AttributeError(f"no option {name!r}, but scorer, weight")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(weight={self.weight})"

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Return one score per pair, in [0, 1] and in order; a blank text scores 0."""
        return run(self._flow(text_pairs)).value

    async def ascore(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Async version of `score`, in [0, 1] for ``text_pairs``, in [0, 1]; the event loop stays
        free.
        """
        return (await arun(self._flow(text_pairs))).value

    def _flow(self, text_pairs: Sequence[tuple[str, str]]) -> Flow[list[float]]:
        scores = [0.0] * len(text_pairs)
        asked = [at for at, (_, text) in enumerate(text_pairs) if has_text(text)]
        pairs = [(text_pairs[at][0], to_passage(Document(text_pairs[at][1]))) for at in asked]
        labels = yield from score_port(self.scorer).ask(pairs)
        for at, label in zip(asked, labels_of(labels), strict=True):
            scores[at] = label.relevance(self.weight)
        return scores


class BiLabelReranker(FromFitted, RerankerOptions, FlowCompressor):
    """Compressor that keeps the documents that answer and that the model can use, best first
    (FIT-RAG).

    Works in every host of LangChain compressors. The documents returned have ``relevance_score``,
    in [0, 1], and both labels in their metadata.

    Args:
        top_n: Documents kept; None keeps all.
        scorer: Object with ``score(pairs)``; None is the bundled one.

    The other options are those of ``fitrag_integrations.methods.FitRag``.

    Example:
        >>> reranker = BiLabelReranker(top_n=5)
        >>> ContextualCompressionRetriever(base_retriever=retriever, base_compressor=reranker)
    """

    def as_cross_encoder(self) -> BiLabelCrossEncoder:
        """Return the scorer the face the stock ``CrossEncoderReranker`` takes."""
        return BiLabelCrossEncoder(self.scorer, weight=self.weight)


class SubDocumentCompressor(FromFitted, ReducerOptions, FlowCompressor):
    """Compressor that cuts each document to its best sentences, within a token budget (FIT-RAG).

    Documents come back best first. The budget counts the numbered and titled lines that a prompt of
    this package shows.

    Args:
        max_tokens: Budget of prompt tokens; None is no limit.
        scorer: Object with ``score(pairs)``; None is the bundled one.

    The other options are those of ``fitrag_integrations.methods.TokenReducer``.

    Example:
        >>> compressor = SubDocumentCompressor(max_tokens=800)
        >>> compressor.compress_documents(documents, "Who designed the bridge?")
    """


class KnowledgeRefiner(FromFitted, RefinerOptions, FlowCompressor):
    """Compressor that keeps the relevant strips of documents, in the order of the documents (CRAG).

    Works in every host of LangChain compressors.

    Args:
        evaluator: Object with ``evaluate(pairs)``; None is the bundled one.

    The other options are those of ``fitrag_integrations.methods.Refiner``.

    Example:
        >>> KnowledgeRefiner(top_n=5).compress_documents(documents, "Who designed the bridge?")
    """
