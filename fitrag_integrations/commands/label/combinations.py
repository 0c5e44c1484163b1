"""Label combinations lot by lot: rerank, cut, combine, have them read, write the rows.

What a stopped run had answered is in the journal, as for the scorer's labels.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fitrag_integrations.commands.engine.rows import Row, error_row
from fitrag_integrations.commands.label.engine import Labelling, Outcomes, is_settled
from fitrag_integrations.flow import Flow, run_many
from fitrag_integrations.methods.fitrag.reducer import ScorePort, TokenReducer, rerank, score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.collecting import Question, Told
from fitrag_integrations.training.eligibility.rows import Places, drawn, prefixes, skyline
from fitrag_integrations.training.labels.ask_combinations import NOTHING, AskCombinations, as_one
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts


@dataclass(frozen=True)
class Combining:
    """Say how combinations are made: of the best `most` windows of a question's passages.

    `kinds` are those of `eligibility_rows`; the other numbers are for the random ones.
    """

    scorer: Scorer
    reducer: TokenReducer
    top_n: int = 10
    most: int = 10
    kinds: tuple[str, ...] = ("random", "prefixes")
    draws: int = 24
    overlap: float = 0.8
    seed: int = 13

    def __call__(self, question: str, passages: Sequence[Passage]) -> Flow[list[Combined]]:
        """Give the flow that ends in a question's combinations."""
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
    """Hold a combination, what it leaves out, its kinds, and the tokens of all passages."""

    excerpts: tuple[Excerpt, ...]
    left: tuple[Excerpt, ...]
    kinds: tuple[str, ...]
    whole: int

    def to_dict(self, question: Question, outcome: Any) -> dict[str, Any]:
        """Give the combination with its label: was the answer from it right?"""
        passage = as_one(self.excerpts)
        told = isinstance(outcome, Told)
        answer = {"answer": outcome.text} if told else {"llm_error": str(outcome)}
        return {
            "kinds": list(self.kinds),
            "scores": _scores(self.excerpts),
            "left": _scores(self.left),
            "eligible": int(question.is_right(outcome.text)) if told else None,
            "has_answer": int(question.has_answer(passage)),
            "share": min(1.0, approximate_tokens(passage.text) / max(1, self.whole)),
            **answer,
        }


@dataclass
class EligibilityLabelling(Labelling):
    """Ask about the combinations of rows and write what comes of it."""

    adds: ClassVar[tuple[str, ...]] = ("needs_retrieval", "combinations", "llm", "fitted_for")
    combining: Combining | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def _labelled(
        self, rows: Sequence[Row], kept: Sequence[Row], questions: Sequence[Question | Exception]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows to write, up to the first that had to be left unfinished."""
        sound = [q for q in questions if isinstance(q, Question)]
        alone = self._alone(sound)
        needing = [q for q, own in zip(sound, alone, strict=True) if not self._knows(q, own)]
        combined = self._combined(needing)
        asked = [
            Question(q.text, q.answers, tuple(as_one(c.excerpts) for c in own), q.patterns)
            for q, own in zip(needing, combined, strict=True)
        ]
        pairs = zip(combined, self._answered(asked), strict=True)
        answered = dict(zip(map(id, needing), pairs, strict=True))
        told = iter(zip(sound, alone, strict=True))
        for plain, question in zip(kept, questions, strict=True):
            if isinstance(question, Exception):
                yield error_row(plain, question)
                continue
            given, own = next(told)
            found, outcomes = answered.get(id(given), ([], []))
            if not is_settled([*own, *outcomes], self.account):
                return
            judged = zip(found, outcomes, strict=True)
            combinations = [one.to_dict(given, outcome) for one, outcome in judged]
            needs = {"needs_retrieval": id(given) in answered, "combinations": combinations}
            yield {**plain.given, **needs, "llm": self.asker.name, "fitted_for": dict(self.about)}

    def _alone(self, questions: Sequence[Question]) -> list[Outcomes]:
        """Have each question answered without a passage, where whoever is asked can do that."""
        if not (isinstance(self.asker, AskCombinations) and self.asker.may_know):
            return [[] for _ in questions]
        bare = [Question(q.text, q.answers, (NOTHING,), q.patterns) for q in questions]
        return self._answered(bare)

    @staticmethod
    def _knows(question: Question, alone: Outcomes) -> bool:
        return any(isinstance(one, Told) and question.is_right(one.text) for one in alone)

    def _combined(self, questions: Sequence[Question]) -> list[list[Combined]]:
        """Make the combinations of all questions, which share the scorer's batches."""
        assert self.combining is not None
        flows = [self.combining(q.text, q.passages) for q in questions]
        return [traced.value for traced in run_many(flows)]


def _scores(excerpts: Sequence[Excerpt]) -> list[tuple[float, float | None]]:
    labels = [excerpt.labels for excerpt in excerpts if excerpt.labels is not None]
    return [(label.has_answer, label.llm_prefer) for label in labels]


def _pair(label: BiLabelScore) -> tuple[float, float]:
    prefer = label.llm_prefer
    return label.has_answer, label.has_answer if prefer is None else prefer
