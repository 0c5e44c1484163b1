"""The defaults of reranking and compression, defined only here.

Methods, the classes of both frameworks and every command read `DEFAULTS`. `methods.fitrag.options`
resolves the options that a caller leaves open. `fitrag doctor --defaults` prints `rows()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Auto: TypeAlias = Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Defaults of retrieval, reranking and compression.

    Args:
        k: Passages that a retriever of this package returns.
        candidates: Passages that a command retrieves from an index to rerank.
        top_n: Passages that the reranker keeps.
        weight: Weight of `llm_prefer` against `has_answer`, in [0, 1].
        prior: Weight of the retriever's order against the bundled scorer's scores.
        max_tokens: Budget of prompt tokens; None for no limit.
        max_share: Maximum fraction of the tokens of the `top_n` passages to keep, if neither a
            budget nor a window is given.
        min_score: Lowest score to keep; None keeps any.
        deduplicate: Whether equal passages count once.
        window: Sentences in a window, for a scorer with `score_sentences`, such as the bundled one.
        paper_window: Sentences in a window for any other scorer, FIT-RAG's own number.
        tokenizer: Token counter: "approximate", or the name of a tiktoken encoding.
    """

    k: int = 10
    candidates: int = 20
    top_n: int = 10
    weight: float = 0.5
    prior: float = 0.1
    max_tokens: int | None = None
    max_share: float = 0.4
    min_score: float | None = None
    deduplicate: bool = True
    window: int = 1
    paper_window: int = 3
    tokenizer: str = "approximate"

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield each option with its default and where it applies."""
        everywhere, step = "reranking and compression", "compression"
        yield "k", str(self.k), "retrievers, try, fit, demo"
        yield "k", str(self.candidates), "verbs that rerank from --index"
        yield "top_n", str(self.top_n), everywhere
        yield "weight", f"{self.weight:g}", everywhere
        yield "prior", f"{self.prior:g}", "ranking by the bundled scorer; 0 by another"
        yield "min_score", _shown(self.min_score, "none"), everywhere
        yield "deduplicate", str(self.deduplicate), everywhere
        yield "max_tokens", _shown(self.max_tokens, "no limit"), step
        yield "max_share", f"{self.max_share:g}", f"{step} without max_tokens and window"
        yield "count_tokens", self.tokenizer, step
        bundled, other = "bundled scorer, or another with score_sentences", "other scorers"
        yield "window", f"{self.window} sentence", f"{bundled}; any number of a passage"
        yield "window", f"{self.paper_window} sentences", f"{other}; one of a passage"


def _shown(value: object, none: str) -> str:
    return none if value is None else str(value)


DEFAULTS = Defaults()
