"""Combinations of a question's best windows, and their labels (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.reducer import ScorePort, TokenReducer, rerank, score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.asking_llm import Outcome
from fitrag_integrations.training.collecting import Question, Told
from fitrag_integrations.training.eligibility.rows import Places, drawn, prefixes, skyline
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts


@dataclass(frozen=True)
class Combining:
    """How combinations are built: of the best `most` windows of a question's passages.

    `kinds` are those of `eligibility_rows`; the other numbers are for the random ones.
    """

    scorer: Scorer
    reducer: TokenReducer
    top_n: int = DEFAULTS.top_n
    most: int = 10
    kinds: tuple[str, ...] = ("random", "prefixes")
    draws: int = 24
    overlap: float = 0.8
    seed: int = 13

    def __call__(self, question: str, passages: Sequence[Passage]) -> Flow[list[Combined]]:
        """Return the flow that ends in a question's combinations."""
        score = score_port(self.scorer)
        best = list(passages)
        if len(best) > self.top_n:
            ranked = yield from rerank(
                question, best, score, top_n=self.top_n, weight=self.reducer.weight
            )
            best = [excerpt.passage for excerpt in ranked]
        kept, _ = yield from self.reducer(question, best, score)
        members = kept[: self.most]
        kinds: dict[Places, list[str]] = {}
        if "prefixes" in self.kinds:
            for places in prefixes(len(members)):
                kinds.setdefault(places, []).append("prefixes")
        if "random" in self.kinds:
            for places in (yield from self._random(question, members, score)):
                kinds.setdefault(places, []).append("random")
        whole = approximate_tokens(render_excerpts([Excerpt.whole(p) for p in best]))
        return [
            Combined(
                tuple(members[i] for i in places),
                tuple(e for i, e in enumerate(kept) if i not in places),
                tuple(own),
                whole,
            )
            for places, own in kinds.items()
        ]

    def _random(
        self, question: str, members: Sequence[Excerpt], score: ScorePort
    ) -> Flow[list[Places]]:
        """Draw, have the scorer read each combination as one passage, keep the skyline."""
        chance = random.Random(f"{self.seed} {question}")
        found = drawn(len(members), draws=self.draws, overlap=self.overlap, chance=chance)
        read = [as_one([members[i] for i in places]) for places in found]
        labels = yield from score.ask([(question, passage) for passage in read])
        return [found[i] for i in skyline([_pair(label) for label in labels])]


@dataclass(frozen=True)
class Combined:
    """A combination, what it leaves out, its kinds, and the tokens of all passages."""

    excerpts: tuple[Excerpt, ...]
    left: tuple[Excerpt, ...]
    kinds: tuple[str, ...]
    whole: int

    def to_dict(self, question: Question, outcome: Outcome | None) -> dict[str, object]:
        """Return the combination with its label: was the answer from it right?"""
        passage = as_one(self.excerpts)
        text = outcome.text if isinstance(outcome, Told) else None
        answer = {"llm_error": str(outcome)} if text is None else {"answer": text}
        return {
            "kinds": list(self.kinds),
            "scores": _scores(self.excerpts),
            "left": _scores(self.left),
            "eligible": None if text is None else int(question.is_right(text)),
            "has_answer": int(question.has_answer(passage)),
            "share": min(1.0, approximate_tokens(passage.text) / max(1, self.whole)),
            **answer,
        }


def as_one(excerpts: Sequence[Excerpt]) -> Passage:
    """Write excerpts as the passage a language model is shown; its parts are kept beside it."""
    parts = tuple(excerpt.as_passage() for excerpt in excerpts)
    return Passage("", render_excerpts(excerpts), metadata={"parts": parts})


def _scores(excerpts: Sequence[Excerpt]) -> list[tuple[float, float | None]]:
    labels = [excerpt.labels for excerpt in excerpts if excerpt.labels is not None]
    return [(label.has_answer, label.llm_prefer) for label in labels]


def _pair(label: BiLabelScore) -> tuple[float, float]:
    prefer = label.llm_prefer
    return label.has_answer, label.has_answer if prefer is None else prefer
