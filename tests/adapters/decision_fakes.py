"""Gates, evaluators and searches for the tests of both adapters; each counts its batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from fakes import labels

from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.ports import Pair
from fitrag_integrations.types import Passage

GATE_THRESHOLD = 0.6
ACTIONS = ActionThresholds(0.5, -0.4, -0.5, "overlap")


@dataclass
class WordGate:
    """Know a question in which a word of ``known`` stands: 0.9, any other 0.2."""

    known: tuple[str, ...] = ("Amarcord",)
    threshold: float | None = GATE_THRESHOLD
    draft_tokens: int = 0
    batches: list[int] = field(default_factory=list)
    drafts: list[str] = field(default_factory=list)

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        self.batches.append(len(questions))
        self.drafts.extend(drafts)
        return [0.9 if any(word in q for word in self.known) else 0.2 for q in questions]


@dataclass
class AsyncWordGate(WordGate):
    """Add an async twin; its batches are counted in ``async_batches`` too."""

    async_batches: list[int] = field(default_factory=list)

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        await asyncio.sleep(0)
        self.async_batches.append(len(questions))
        return self.p_known(questions, drafts)


@dataclass
class BrokenGate:
    """Fail on every batch that holds a question with the word ``bad``."""

    bad: str = ""

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        if any(self.bad in question for question in questions):
            raise RuntimeError("the gate is broken")
        return [0.9] * len(questions)


@dataclass
class OverlapEvaluator:
    """Grade by shared words: twice the share of the question's words found, less 1."""

    thresholds: ActionThresholds | None = ACTIONS
    name: str = "overlap"
    batches: list[int] = field(default_factory=list)

    def evaluate(self, pairs: Sequence[Pair]) -> list[float]:
        self.batches.append(len(pairs))
        return [2.0 * labels(question, passage).has_answer - 1.0 for question, passage in pairs]


@dataclass
class PageSearch:
    """Answer every query with the same pages, or raise ``error``."""

    pages: Sequence[Passage] = (
        Passage(
            "page",
            "The ferry to Corran Head leaves at noon.\n\nThis site sets no cookies.",
            "Ferries",
            "https://ferries.example/",
        ),
    )
    error: Exception | None = None
    batches: list[int] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def search(self, queries: Sequence[str]) -> list[list[Passage]]:
        self.batches.append(len(queries))
        self.queries.extend(queries)
        if self.error is not None:
            raise self.error
        return [list(self.pages) for _ in queries]

    async def asearch(self, queries: Sequence[str]) -> list[list[Passage]]:
        await asyncio.sleep(0)
        return self.search(queries)
