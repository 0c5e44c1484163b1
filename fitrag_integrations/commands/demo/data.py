"""What the demo asks, and what it keeps of each answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from fitrag_integrations.methods.prompts import PromptTemplate
from fitrag_integrations.ports import Reader, Scorer
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage, RetrievalDecision

HOME = Path(str(resources.files("fitrag_integrations"))) / "embedded" / "demo"
PASSAGES = HOME / "passages.jsonl"
FEWEST_UNANSWERABLE = 30
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """Hold a question, its answers, and the ids of the passages that hold one; none hold one of
    an unanswerable question.
    """

    text: str
    answers: tuple[str, ...]
    passage_ids: frozenset[str]
    answerable: bool


@dataclass(frozen=True, slots=True)
class Worked:
    """Hold a question's way through a pipeline.

    `found` is in the order of retrieval, `ranked` best first after the reranker, whose first
    `top_n` are compressed; `kept` is what the prompt shows; `answer` is empty where the reader
    abstained. A question that was not retrieved for has none of the three.
    """

    question: Question
    found: tuple[Passage, ...]
    ranked: tuple[Excerpt, ...]
    kept: tuple[Excerpt, ...]
    prompt: str
    answer: str
    top_n: int
    decision: RetrievalDecision | None = None

    @property
    def skipped(self) -> bool:
        """Say whether the language model answered by itself."""
        return self.decision is not None and not self.decision.retrieve

    @property
    def compressed(self) -> tuple[Excerpt, ...]:
        """Give the whole passages the compressor was given."""
        return self.ranked[: self.top_n]


Stack = Callable[[Sequence[Question]], list[Worked]]


@dataclass(frozen=True)
class Parts:
    """Hold what both pipelines are made of; with an `llm`, the reader is not asked.

    With a `gate`, the language model that writes its drafts answers what it knows.
    """

    index: Any
    scorer: Scorer
    reader: Reader
    llm: Any = None  # a LangChain chat model
    k: int = 10
    top_n: int = 3
    gate: Any = None

    @property
    def template(self) -> PromptTemplate:
        """Give the prompt that the language model of the gate answers by itself."""
        return PromptTemplate("closed_book", self.gate.drafter.prompt, one_line=True)

    @property
    def passages(self) -> dict[str, Passage]:
        """Find passages by id."""
        return {passage.id: passage for passage in self.index.passages}


def questions(count: int) -> list[Question]:
    """Take an evenly spread sample, in the order of the file.

    The share of unanswerable questions is that of the file, and at least 30 where a fifth of the
    sample allows it.
    """
    with (HOME / "questions.jsonl").open(encoding="utf-8") as lines:
        every = [_question(json.loads(line)) for line in lines]
    answerable = [question for question in every if question.answerable]
    others = [question for question in every if not question.answerable]
    share = max(round(count * len(others) / len(every)), min(FEWEST_UNANSWERABLE, count // 5))
    some = min(share, len(others))
    return spread(answerable, count - some) + spread(others, some)


def spread(items: Sequence[T], count: int) -> list[T]:
    """Pick `count` items at even distances; all where there are fewer."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def _question(row: Mapping[str, Any]) -> Question:
    return Question(
        row["question"],
        tuple(row["answers"]),
        frozenset(row["passage_ids"]),
        bool(row["answerable"]),
    )


def excerpt_of(metadata: Mapping[str, Any], passages: Mapping[str, Passage]) -> Excerpt:
    """Read an excerpt back from what our drop-ins write, alike in both frameworks."""
    passage = passages[metadata["source_id"]]
    start = metadata.get("source_start", 0)
    end = metadata.get("source_end", len(passage.text))
    labels = BiLabelScore(metadata["has_answer"], metadata["llm_prefer"])
    return Excerpt(passage, start, end, metadata["raw_score"], labels)
