"""Explain a compression: run it as it runs, and tell why each excerpt was kept or dropped.

Nothing is estimated afterwards. The flows below end in what the token reducer (FIT-RAG, section
4.4.2) or the refiner (CRAG, section 4.4) gives, with everything it was chosen from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.flow import Flow, run
from fitrag_integrations.methods.crag.refiner import Refined, Refiner
from fitrag_integrations.methods.explain.compression import Compression, Reduction, Weighed
from fitrag_integrations.methods.fitrag.reducer import ScorePort, TokenReducer, score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.text.tokens import TokenCounter
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.windows import by_score

__all__ = ["explain_compression", "explained_reduction", "explained_refinement"]

NUMBERS = ("window", "stride", "weight", "max_tokens", "per_passage", "min_score", "scoring")
"""The settings of a token reducer that a compression keeps."""


def explain_compression(
    question: str, passages: Sequence[Passage], *, scorer: Scorer | None = None, **settings: Any
) -> Compression:
    """Compress passages for a question as `TokenReducer` does, and keep the reasons.

    `scorer` None is the embedded one; `settings` are the arguments of `TokenReducer`: `window`,
    `stride`, `weight`, `max_tokens`, `count_tokens`, `detector`, `split`, `per_passage`,
    `max_share`, `min_score`, `scoring`. Raises `InputError` for a blank question or a wrong
    setting.
    """
    reducer = TokenReducer(**settings)
    return run(explained_reduction(question, passages, reducer, score_port(scorer))).value


def explained_reduction(
    question: str, passages: Sequence[Passage], reducer: TokenReducer, score: ScorePort
) -> Flow[Compression]:
    """Give the flow that ends in what a token reducer kept and left out; `score` is its port."""
    reducer, scoring = reducer.settled(score)
    asked = scoring.about(check_text("question", question, blank=False))
    reduction = yield from reducer.reduced(passages, asked)
    weighing = _Weighing(reduction.windows, reduction.kept, reducer.counter)
    why = _reduced(reduction, reducer)
    details = {
        **{name: getattr(reducer, name) for name in NUMBERS},
        "max_share": reducer.share,
        "tokens_in": reduction.tokens_in,
        "tokens_out": reduction.tokens_out,
    }
    weighed = tuple(weighing(one, why(one)) for one in reduction.ranked)
    given = tuple(passages)
    return Compression(question, given, reduction.kept, weighed, reduction.notes, details)


def explained_refinement(
    question: str, passages: Sequence[Passage], refiner: Refiner
) -> Flow[Compression]:
    """Give the flow that ends in what a refiner kept and left out of the strips it graded."""
    refined = yield from refiner(question, passages)
    weighing = _Weighing(refined.graded, refined.excerpts, refiner.counter)
    why = _refined(refined, refiner)
    weighed = tuple(weighing(one, why(one)) for one in by_score(refined.graded))
    given = tuple(passages)
    return Compression(question, given, refined.excerpts, weighed, refined.notes, refined.details)


class _Weighing:
    """Tell of an excerpt how far it is from the line and from the others of its passage."""

    def __init__(
        self, judged: Sequence[Excerpt], kept: Sequence[Excerpt], count_tokens: TokenCounter
    ) -> None:
        self.count_tokens = count_tokens
        self.kept = _within(kept)
        self.line = min((one.score for one in kept), default=math.nan)
        self.judged: dict[Passage, list[Excerpt]] = {}
        for one in judged:
            self.judged.setdefault(one.passage, []).append(one)

    def __call__(self, one: Excerpt, why: str) -> Weighed:
        gap = None if math.isnan(self.line) else one.score - self.line
        siblings = self.judged[one.passage]
        at = siblings.index(one)
        others = [each.score for each in siblings[:at] + siblings[at + 1 :]]
        lead = one.score - max(others) if others else None
        cost = self.cost([one])
        return Weighed(one, self.kept(one), why, gap, cost, at + 1, len(siblings), lead)

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        return int(self.count_tokens(render_excerpts(excerpts)))


def _reduced(reduction: Reduction, reducer: TokenReducer) -> Callable[[Excerpt], str]:
    """Say why a passage's best window was kept, or which of the limits left it out."""
    kept, enough = _within(reduction.kept), _within(reduction.enough)
    one_each = reducer.per_passage == 1
    limits = {"max_tokens": reducer.max_tokens, "max_share": reducer.share}
    set_ones = [f"{name}={limit:g}" for name, limit in limits.items() if limit is not None]
    over = f"over {' or '.join(set_ones)}"

    def why(one: Excerpt) -> str:
        if kept(one):
            return "the best of its passage" if one_each else "among the best of its passage"
        if any(each.passage == one.passage and _part(each, one) for each in reduction.kept):
            return f"narrowed, as it is {over}"
        if reducer.min_score is not None and one.score < reducer.min_score:
            return f"under min_score={reducer.min_score:g}"
        return over if enough(one) else "the detector found those before it to be enough"

    return why


def _part(one: Excerpt, of: Excerpt) -> bool:
    return of.start <= one.start and one.end <= of.end


def _refined(refined: Refined, refiner: Refiner) -> Callable[[Excerpt], str]:
    """Say why a strip was kept, or which of the three limits left it out."""
    threshold = float(refined.details["strip_threshold"])
    kept = _within(refined.excerpts)
    passed = by_score([one for one in refined.graded if one.score >= threshold])
    able = _within(passed[: refiner.top_n])

    def why(one: Excerpt) -> str:
        if kept(one):
            reached = f"reaches the threshold {threshold:.2f}"
            return reached if passed else f"the best, though under {threshold:.2f}"
        if able(one):
            return f"over max_tokens={refiner.max_tokens}"
        if one.score < threshold:
            return f"{threshold - one.score:.2f} under the threshold {threshold:.2f}"
        return f"not among the best top_n={refiner.top_n}"

    return why


def _within(excerpts: Iterable[Excerpt]) -> Callable[[Excerpt], bool]:
    """Ask of an excerpt whether one of these covers it; what is kept may have been joined."""
    spans: dict[Passage, list[tuple[int, int]]] = {}
    for each in excerpts:
        spans.setdefault(each.passage, []).append((each.start, each.end))

    def covers(one: Excerpt) -> bool:
        own = spans.get(one.passage, ())
        return any(start <= one.start and one.end <= end for start, end in own)

    return covers
