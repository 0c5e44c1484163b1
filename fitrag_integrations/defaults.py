"""The defaults of reranking and compression: the one place where their numbers stand.

Methods, the classes of both frameworks and every verb read `DEFAULTS`; what a caller leaves open is
settled by `Defaults.cutting`. `fitrag doctor --defaults` prints `rows()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from fitrag_integrations.errors import InputError

Auto: TypeAlias = Literal["auto"]
ONE_PASS, WINDOWS = "one_pass", "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """How passages are cut into windows of sentences, and how much of them is kept.

    Args:
        scoring: "one_pass" judges windows from one reading of their passage, "windows" reads each
            window as a text of its own (FIT-RAG, section 4.4.2).
        window: Sentences in a window.
        stride: Sentences from the start of one window to the next.
        per_passage: Windows kept of a passage at most; None for any number.
        max_share: Fraction of the passages' tokens that is kept at most, in (0, 1]; None for all.
        min_tokens: Tokens that `max_share` always allows.
    """

    scoring: str
    window: int
    stride: int = 1
    per_passage: int | None = None
    max_share: float | None = None
    min_tokens: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Defaults of retrieval, reranking and compression.

    Args:
        k: Passages that a retriever of this package returns.
        candidates: Passages that a verb takes from an index to rerank.
        top_n: Passages that the reranker keeps.
        weight: Weight of `llm_prefer` against `has_answer`, in [0, 1].
        prior: Weight of what is known before the bundled scorer scores: places of passages.
        max_tokens: Budget of prompt tokens; None for no limit.
        min_score: Lowest score kept; None for any.
        deduplicate: Whether equal passages count once.
        max_passages: Passages that one call scores at most; None for any number.
        max_sentences: Sentences of all passages that one call reads at most; None for any number.
            Both bounds keep a call of the bundled scorer on one processor core near a minute.
        tokenizer: What counts tokens: "approximate", or a tiktoken encoding.
        sentences: Cutting for a scorer with `score_sentences`, such as the bundled one.
        plain: Cutting for any other scorer.
        paper: Cutting for another `window`, or for `scoring="windows"`: FIT-RAG's own.
    """

    k: int = 10
    candidates: int = 20
    top_n: int = 10
    weight: float = 0.5
    prior: float = 0.1
    max_tokens: int | None = None
    min_score: float | None = None
    deduplicate: bool = True
    max_passages: int | None = 1000
    max_sentences: int | None = 5000
    tokenizer: str = "approximate"
    sentences: Cutting = Cutting(scoring=ONE_PASS, window=1, max_share=0.4, min_tokens=64)
    plain: Cutting = Cutting(scoring=WINDOWS, window=3, per_passage=1, max_share=0.4, min_tokens=64)
    paper: Cutting = Cutting(scoring=WINDOWS, window=3, per_passage=1)

    def cutting(
        self,
        *,
        reads_sentences: bool,
        scoring: str | None = None,
        window: int | None = None,
        stride: int | None = None,
        per_passage: int | Auto | None = "auto",
        max_share: float | Auto | None = "auto",
        min_tokens: int | Auto = "auto",
        max_tokens: int | None = None,
    ) -> Cutting:
        """Settle everything that a caller leaves open.

        A `window` or `scoring="windows"` selects the paper's way, unless the window is one sentence
        of a scorer that judges sentences: that is the default. Otherwise the scorer decides. With
        `max_tokens` there is no limit by a fraction of the tokens.

        Args:
            reads_sentences: Whether the scorer has `score_sentences`.
            scoring: "one_pass" or "windows"; None decides by the rest.
            window: Sentences in a window; None decides by the rest.
            stride: Sentences from one window to the next, at most `window`; None is the default.
            per_passage: Windows of a passage; None for any number.
            max_share: Fraction of the tokens; None for no limit.
            min_tokens: Tokens that the fraction always allows.
            max_tokens: Budget of prompt tokens.

        Raises:
            InputError: If `stride` exceeds the window, so that sentences would be skipped.
        """
        if scoring != WINDOWS and window in (None, self.sentences.window) and reads_sentences:
            chosen = self.sentences
        else:
            chosen = self.plain if window is None and scoring is None else self.paper
        chosen = replace(
            chosen,
            scoring=scoring or chosen.scoring,
            window=window or chosen.window,
            stride=stride or chosen.stride,
        )
        if chosen.stride > chosen.window:
            allowed = f"an integer from 1 to window={chosen.window}, or sentences would be skipped"
            raise InputError.of("stride", given=chosen.stride, allowed=allowed)
        if per_passage != "auto":
            chosen = replace(chosen, per_passage=per_passage)
        if max_share != "auto" or max_tokens is not None:
            given = None if max_share == "auto" else max_share
            chosen = replace(chosen, max_share=given, min_tokens=1)
        return chosen if min_tokens == "auto" else replace(chosen, min_tokens=min_tokens)

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
        yield "max_passages", _shown(self.max_passages, "no limit"), everywhere
        yield "max_sentences", _shown(self.max_sentences, "no limit"), everywhere
        yield "max_tokens", _shown(self.max_tokens, "no limit"), step
        yield "count_tokens", self.tokenizer, step
        for way, where in (
            (self.sentences, "bundled scorer, or another with score_sentences"),
            (self.plain, "other scorers"),
            (self.paper, "another window=, or scoring='windows'"),
        ):
            yield "scoring", way.scoring, where
            yield "window", f"{way.window} sentence{'s' * (way.window > 1)}", where
            yield "stride", str(way.stride), where
            yield "per_passage", _shown(way.per_passage, "any number"), where
            yield "max_share", _shown(way.max_share, "all tokens"), f"{where}; no max_tokens"
            yield "min_tokens", str(way.min_tokens), f"{where}; no max_tokens"


def _shown(value: object, none: str) -> str:
    return none if value is None else str(value)


DEFAULTS = Defaults()
