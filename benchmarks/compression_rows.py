"""The questions on which compression is measured; nothing here is trained on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer, exact_match
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Excerpt, Passage

SETS = ("nq", "popqa", "triviaqa", "2wiki", "squad_dev", "covidqa")


@dataclass(frozen=True)
class Asked:
    """Hold a question, its gold answers and passages of which one holds an answer."""

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]

    def holds(self, excerpts: Sequence[Excerpt]) -> bool:
        """Say whether an answer stands in an excerpt or the title above it."""
        return any(contains_answer(f"{e.passage.title} {e.text}", self.answers) for e in excerpts)

    def share(self, excerpts: Sequence[Excerpt]) -> float:
        """Give the share of the words kept; what two excerpts share counts once."""
        kept = sum(len(text.split()) for text in _united(excerpts))
        return kept / sum(len(passage.text.split()) for passage in self.passages)

    def is_right(self, answer: str) -> bool:
        """Say whether an answer holds a gold one."""
        return contains_answer(answer, self.answers) or exact_match(answer, self.answers)


def load(data: Path, name: str, *, n: int, seed: int) -> list[Asked]:
    """Give up to `n` questions of a set whose passages hold an answer, 0 for all."""
    own = {"squad_dev": _squad, "covidqa": _covid}
    read: Callable[[Path], Iterator[Asked]] = own.get(name, lambda data: retrieved(data, name))
    rows = [row for row in read(data) if row.holds([Excerpt.whole(p) for p in row.passages])]
    random.Random(seed).shuffle(rows)
    return rows[: n or None]


def _united(excerpts: Sequence[Excerpt]) -> Iterator[str]:
    ordered = sorted(excerpts, key=lambda e: (e.passage.id, e.start, e.end))
    ends: dict[str, int] = {}
    for one in ordered:
        start = max(one.start, ends.get(one.passage.id, 0))
        if start < one.end:
            yield one.passage.text[start : one.end]
            ends[one.passage.id] = one.end


def retrieved(data: Path, name: str) -> Iterator[Asked]:
    (path,) = (data / "odqa_retrieved").glob(f"{name}_top*.jsonl.gz")
    for row in read_jsonl(path):
        passages = [passage_row(passage) for passage in row["passages"]]
        yield asked(row, [(p.title, p.text) for p in passages])


def _squad(data: Path) -> Iterator[Asked]:
    for row in read_jsonl(data / "squad" / "squad_dev_xquad_en.jsonl.gz"):
        yield asked(row, [(row["title"].replace("_", " "), row["context"])])


def _covid(data: Path) -> Iterator[Asked]:
    folder = data / "covidqa"
    texts = {r["doc_id"]: r["text"] for r in read_jsonl(folder / "covidqa_documents.jsonl.gz")}
    for row in read_jsonl(folder / "covidqa_questions.jsonl.gz"):
        yield asked(row, [("", texts[row["doc_id"]])])


def asked(row: dict[str, Any], passages: Sequence[tuple[str, str]]) -> Asked:
    made = tuple(Passage(str(i), text, title) for i, (title, text) in enumerate(passages))
    return Asked(row["question"], tuple(row["answers"]), made)
