"""Small real stand-ins for models and I/O, shared by the tests of both adapters.

No framework and no model: labels come from shared words, so every number can be worked out by
hand, and each object counts the batches it was given.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fitrag_integrations.ports import Pair
from fitrag_integrations.types import BiLabelScore, Passage

T = TypeVar("T")

QUESTIONS = (
    "Who wrote the score of Amarcord?",
    "Where does the river Danube end?",
    "When was the Eiffel Tower finished?",
)
PASSAGES = (
    Passage(
        "amarcord",
        "Amarcord is a film by Federico Fellini. It was released in 1973. "
        "Nino Rota wrote the score of the film. It won an award in 1975. "
        "The film is set in a small town by the sea.",
        "Amarcord",
        "film.txt",
        {"year": 1973, "tags": ["film", "italy"], "score": 0.75},
    ),
    Passage(
        "rota",
        "Nino Rota was a composer from Milan. He wrote music for many films.",
        "Nino Rota",
        "music.txt",
        {"year": 1911},
    ),
    Passage(
        "danube",
        "The Danube is the second longest river in Europe. It rises in the Black Forest. "
        "The river Danube does end in the Black Sea. Ten countries lie on its way.",
        "Danube",
        "rivers.txt",
        {"length": 2850.0},
    ),
    Passage("rhine", "The Rhine is a river. It rises in the Alps.", "Rhine", "rivers.txt"),
    Passage(
        "tower",
        "The Eiffel Tower stands in Paris. It was finished in 1889. It is made of iron.",
        "Eiffel Tower",
    ),
    Passage("bread", "Bread is baked from flour and water.", "Bread"),
)


def words(text: str) -> set[str]:
    """Give the lower-cased words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def labels(question: str, passage: Passage) -> BiLabelScore:
    """Label a pair by shared words.

    ``has_answer`` is the share of the question's words found in title or text, ``llm_prefer`` the
    share of the text's words found in the question.
    """
    asked, told = words(question), words(passage.text)
    shared = len(asked & (told | words(passage.title)))
    has_answer = shared / max(len(asked), 1)
    return BiLabelScore(has_answer, len(asked & told) / max(len(told), 1))


@dataclass
class SyncOverlapScorer:
    """Score by shared words; ``batches`` holds the size of each batch in order.

    ``threads`` holds who called: from a thread of its own, nothing it does holds an event loop.
    """

    batches: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    @property
    def calls(self) -> int:
        return len(self.batches)

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        self.batches.append(len(pairs))
        self.threads.add(threading.get_ident())
        return [labels(question, passage) for question, passage in pairs]


@dataclass
class OverlapScorer(SyncOverlapScorer):
    """Add an async twin, whose batches are counted in ``async_batches`` too."""

    async_batches: list[int] = field(default_factory=list)

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        self.batches.append(len(pairs))
        self.async_batches.append(len(pairs))
        await asyncio.sleep(0)
        return [labels(question, passage) for question, passage in pairs]


@dataclass
class StrictScorer(SyncOverlapScorer):
    """Refuse blank texts and questions, as the trained scorers do."""

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        for question, passage in pairs:
            if not (question.strip() and passage.text.strip()):
                raise ValueError("a pair has no text")
        return super().score(pairs)


@dataclass
class HasAnswerScorer:
    """Give one label only, as a cross-encoder with a single output does."""

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        return [BiLabelScore(labels(question, passage).has_answer) for question, passage in pairs]


@dataclass
class FailingScorer:
    """Fail on every batch that holds a pair of the question ``bad``, or on all where it is None."""

    bad: str | None = None

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        if self.bad is None or any(question == self.bad for question, _ in pairs):
            raise RuntimeError("the scorer is broken")
        return [labels(question, passage) for question, passage in pairs]


@dataclass
class FixedGate:
    """Know each question with the same probability."""

    probability: float
    threshold: float = 0.5
    batches: list[int] = field(default_factory=list)

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        self.batches.append(len(questions))
        return [self.probability] * len(questions)


@dataclass
class EnoughOf:
    """Find a combination sufficient once it has ``count`` excerpts."""

    count: int

    def eligible(self, combinations: Sequence[Sequence[BiLabelScore]]) -> list[float]:
        return [float(len(combination) >= self.count) for combination in combinations]


@dataclass(frozen=True)
class Span:
    """An answer as a reader gives it: ``text`` is the passage's ``[start:end]``."""

    text: str
    start: int
    end: int
    score: float


@dataclass
class LongestWordReader:
    """Answer with the first longest word of the passage; the score is the shared words."""

    batches: list[int] = field(default_factory=list)

    def read(self, pairs: Sequence[Pair]) -> list[Span]:
        self.batches.append(len(pairs))
        return [self._read(question, passage) for question, passage in pairs]

    def _read(self, question: str, passage: Passage) -> Span:
        found = max(re.finditer(r"\w+", passage.text), key=lambda m: len(m[0]), default=None)
        start, end = found.span() if found else (0, 0)
        score = labels(question, passage).has_answer
        return Span(passage.text[start:end], start, end, score)


@dataclass
class OverlapRetriever:
    """Find passages by shared words, best first; ``batches`` as in the scorer."""

    passages: Sequence[Passage] = PASSAGES
    k: int = 4
    batches: list[int] = field(default_factory=list)

    def retrieve(self, queries: Sequence[str]) -> list[list[Passage]]:
        self.batches.append(len(queries))
        return [self.best(query) for query in queries]

    def best(self, query: str) -> list[Passage]:
        ordered = sorted(self.passages, key=lambda passage: -labels(query, passage).has_answer)
        return ordered[: self.k]


@dataclass
class WordEncoder:
    """Encode a text by which of the passages' words it holds; ``batches`` as in the scorer."""

    name: str = "words"
    batches: list[int] = field(default_factory=list)
    known: list[str] = field(
        default_factory=lambda: sorted(set().union(*(words(p.text) for p in PASSAGES)))
    )

    @property
    def width(self) -> int:
        return len(self.known)

    def encode(self, texts: Sequence[str]) -> Any:
        import numpy as np  # only the index needs it

        self.batches.append(len(texts))
        rows = [[float(word in words(text)) for word in self.known] for text in texts]
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), self.width)
