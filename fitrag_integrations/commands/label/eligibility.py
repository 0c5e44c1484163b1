"""`fitrag label eligibility`: from which combinations of sub-documents is the answer right?

Combinations of the best windows of a question, and their labels (FIT-RAG, section 4.4.2).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import ScorerFolder
from fitrag_integrations.commands.label.asking import FOR_READERS, Asked, AskingPlan
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.fitrag.options import score_port
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.asking_llm import AskReader
from fitrag_integrations.training.collecting import Outcome, Question, Told
from fitrag_integrations.training.rows import (
    BOTH,
    KINDS,
    Places,
    drawn,
    prefixes,
    skyline,
)
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts


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
        return {
            "kinds": list(self.kinds),
            "scores": _scores(self.excerpts),
            "left": _scores(self.left),
            "eligible": None if text is None else int(question.is_right(text)),
            "has_answer": int(question.has_answer(passage)),
            "share": min(1.0, approximate_tokens(passage.text) / max(1, self.whole)),
            **({"llm_error": str(outcome)} if text is None else {"answer": text}),
        }


def as_one(excerpts: Sequence[Excerpt]) -> Passage:
    """Join excerpts to one passage for a prompt, with its parts in the metadata."""
    parts = tuple(excerpt.as_passage() for excerpt in excerpts)
    return Passage("", render_excerpts(excerpts), metadata={"parts": parts})


def _scores(excerpts: Sequence[Excerpt]) -> list[tuple[float, float | None]]:
    labels = [excerpt.labels for excerpt in excerpts if excerpt.labels is not None]
    return [(label.has_answer, label.llm_prefer) for label in labels]


ADDS = ("needs_retrieval", "combinations", "llm", "fitted_for")
NOTHING = Passage("", "")
"""What is asked about where the model has to answer by itself."""


@dataclass(frozen=True)
class LabelEligibility(AskingPlan):
    """Label combinations of excerpts by whether the language model answers right from them.

    These are the rows of FIT-RAG's eligible augmentation detector (section 4.4.2). Adds
    needs_retrieval, false if the model is right without a passage, and, if it is true,
    combinations[{kinds, scores, eligible, has_answer, share, answer}]. To continue a stopped run,
    run the same command again.
    """

    name: ClassVar[str] = "label eligibility"
    depth: Annotated[int, Option("Passages per question before reranking.", min=1)] = 100
    top_n: Annotated[int, Option("Passages the reranker keeps.", min=1)] = DEFAULTS.top_n
    window: Annotated[int, Option("Sentences per excerpt, two at least.", min=2)] = (
        DEFAULTS.paper_window
    )
    most: Annotated[int, Option("Number of best windows to combine.", min=1)] = 10
    combinations: Annotated[
        str, Option("Combinations: random (the paper's), prefixes (as at inference) or both.")
    ] = BOTH
    draws: Annotated[int, Option("Random draws per question.", min=1)] = 24
    overlap: Annotated[float, Option("Maximum overlap of two draws (Jaccard).", min=0, max=1)] = 0.8
    scorer: ScorerFolder = None
    seed: Annotated[int, Option("Seed of the questions' order and the draws.")] = 13

    def __post_init__(self) -> None:
        kinds = (*KINDS, BOTH)
        refuse_if(
            self.combinations not in kinds, "--combinations", self.combinations, ", ".join(kinds)
        )

    def verb(self, asked: Asked) -> Verb:
        """Answer without passages first, then from each combination if the question needs
        retrieval.
        """
        scorer = models.load_scorer(self.hardware.of(self.scorer))
        reducer = TokenReducer(scorer=scorer, top_n=self.top_n, window=self.window, detector=False)
        fitted_for = reducer.plan.cut_so
        questions, may_know = self.questions(), not isinstance(asked.asker, AskReader)

        def flow(row: Mapping[str, object]) -> Flow[Row]:
            question = yield from questions(row)
            alone = yield from asked.about(
                replace(question, passages=(NOTHING,) if may_know else ())
            )
            needs = not any(isinstance(a, Told) and question.is_right(a.text) for a in alone)
            found: list[Combined] = []
            if needs:
                found = yield from self.combined(question, reducer)
            outcomes = yield from asked.about(
                replace(question, passages=tuple(as_one(one.excerpts) for one in found))
            )
            asked.check([*alone, *outcomes])
            labelled = [
                one.to_dict(question, outcome) for one, outcome in zip(found, outcomes, strict=True)
            ]
            return {
                "needs_retrieval": needs,
                "combinations": labelled,
                "llm": asked.asker.name,
                "fitted_for": fitted_for,
            }

        return Verb(flow, ADDS, drops=FOR_READERS)

    def combined(self, question: Question, reducer: TokenReducer) -> Flow[list[Combined]]:
        """Combine the best windows of a question's passages.

        The random combinations are drawn, scored as one passage each, and those on the skyline of
        both labels stay.
        """
        kinds: dict[Places, list[str]] = {}
        context = yield from reducer.context(question.text, question.passages)
        members = context.excerpts[: self.most]
        if self.combinations in ("prefixes", BOTH):
            for places in prefixes(len(members)):
                kinds.setdefault(places, []).append("prefixes")
        if self.combinations in ("random", BOTH):
            chance = random.Random(f"{self.seed} {question.text}")
            places_drawn = drawn(
                len(members), draws=self.draws, overlap=self.overlap, chance=chance
            )
            read = [as_one([members[i] for i in places]) for places in places_drawn]
            labels: list[BiLabelScore] = yield from score_port(reducer.scorer).ask(
                [(question.text, passage) for passage in read]
            )
            pairs = [
                (one.has_answer, one.has_answer if one.llm_prefer is None else one.llm_prefer)
                for one in labels
            ]
            for at in skyline(pairs):
                kinds.setdefault(places_drawn[at], []).append("random")
        whole = context.details["tokens_in"]
        return [
            Combined(
                tuple(members[i] for i in places),
                tuple(e for i, e in enumerate(context.excerpts) if i not in places),
                tuple(own),
                whole,
            )
            for places, own in kinds.items()
        ]

    def counted(self, rows: Iterable[Row]) -> tuple[str, dict[str, object]]:
        """Count questions, those known without retrieval, combinations, and error rows."""
        counts = Counter(questions=0, known=0, combinations=0, eligible=0, errors=0)
        for row in rows:
            if row.get("error") is not None:
                counts["errors"] += 1
                continue
            combinations = row["combinations"]
            counts["questions"] += 1
            counts["known"] += not row["needs_retrieval"]
            counts["combinations"] += len(combinations)
            counts["eligible"] += sum(one["eligible"] == 1 for one in combinations)
        return str(dict(counts)), dict(counts)
