"""Retrieve as FIT-RAG does: score, decide, rerank, reduce (FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.methods.fitrag.method import FitRag
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import Encoder


@dataclass(eq=False, repr=False, kw_only=True)
class FitRagRetriever(MethodOverBase):
    """Retriever that keeps the sentences that answer, within a token budget (FIT-RAG).

    It returns an empty list if ``gate`` finds that the model knows the answer.

    Args:
        base: Retriever of candidates, a hundred in the paper.

    The other options are those of ``fitrag_integrations.methods.FitRag``.

    Example:
        >>> retriever = FitRagRetriever(index.as_retriever(similarity_top_k=100), max_tokens=800)
        >>> nodes = retriever.retrieve("Who designed the bridge?")
        >>> print(retriever.explain())
    """

    made: ClassVar = FitRag

    scorer: object = None
    window: int | None = None
    stride: int = 1
    weight: float = DEFAULTS.weight
    prior: float | None = None
    max_tokens: int | None = DEFAULTS.max_tokens
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    detector: object = None
    split: SentenceSplitter | None = None
    per_passage: int | Literal["auto"] | None = "auto"
    max_share: float | Literal["auto"] | None = "auto"
    min_tokens: int | Literal["auto"] = "auto"
    min_score: float | None = DEFAULTS.min_score
    scoring: str | None = None
    logits: bool = False
    deduplicate: bool = DEFAULTS.deduplicate
    max_passages: int | None = DEFAULTS.max_passages
    max_sentences: int | None = DEFAULTS.max_sentences
    gate: object = None
    top_n: int | None = DEFAULTS.top_n
