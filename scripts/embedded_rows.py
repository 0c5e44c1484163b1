"""Read the sets that the embedded models are trained on, from a data folder.

Only sets with a permissive or share-alike license are read, and no question of `MEASURING`.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.training.rows import ReadingRow, read_jsonl, reading_row

MEASURING = (
    "odqa_retrieved/*.jsonl.gz",
    "retrievalqa/*.jsonl.gz",
    "skr_temporal/*.jsonl.gz",
    "slimplm/*.jsonl.gz",
    "crag/*knowledge.jsonl.gz",
    "squad/*dev*.jsonl.gz",
    "multihop/*test.jsonl.gz",
    "multihop/musique*.jsonl.gz",
)
LONGEST_ANSWER, HELD = 12, 0.2


def rows_of(data: Path, pattern: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of all files that match."""
    for path in sorted(data.glob(pattern)):
        yield from read_jsonl(path)


def key(question: str) -> str:
    """Return a question's words, by which it is compared."""
    return re.sub(r"\W+", " ", question.lower()).strip()


def is_held(question: str) -> bool:
    """Check whether a question is held out."""
    digest = hashlib.sha1(key(question).encode()).hexdigest()
    return int(digest[:8], 16) % 100 < 100 * HELD


def reading(data: Path, name: str) -> list[ReadingRow]:
    """Read a set of spans; answers of more than a dozen words are no short answers."""
    rows = map(reading_row, read_jsonl(data / "reading" / f"{name}.jsonl.gz"))
    return [row for row in rows if row.answers and len(row.answers[0].split()) <= LONGEST_ANSWER]


def squad_sample(data: Path) -> Iterator[ReadingRow]:
    """Read the sample of SQuAD's training set, whose layout is its own."""
    for row in read_jsonl(data / "squad" / "squad_train_sample.jsonl.gz"):
        start = row["answer_start"]
        yield reading_row(
            {
                **row,
                "passage": {"text": row["context"], "title": row.get("title")},
                "answer_start": start[0] if isinstance(start, list) else start,
            }
        )


def multihop(data: Path) -> Iterator[ReadingRow]:
    """Read the training rows of HotpotQA and 2Wiki whose supporting passage holds the answer."""
    for name in ("hotpotqa_train", "2wikimultihopqa_train"):
        for row in read_jsonl(data / "multihop" / f"{name}.jsonl.gz"):
            found = next(filter(None, (_span(p, row["answers"]) for p in _supporting(row))), None)
            if found is None:
                continue
            passage, answer = found
            others = [p for p in row["passages"] if not _holds(p, row["answers"])]
            answers = list(dict.fromkeys([answer, *row["answers"]]))
            yield reading_row({**row, "answers": answers, "passage": passage, "negatives": others})


def sample(rows: list[ReadingRow], cap: int, chance: random.Random) -> list[ReadingRow]:
    """Take at most `cap` rows at random, all where it is 0."""
    return chance.sample(rows, cap) if 0 < cap < len(rows) else rows


def _supporting(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for p in row["passages"] if p["is_supporting"]]


def _holds(passage: dict[str, Any], answers: list[str]) -> bool:
    return contains_answer(f"{passage['title']} {passage['text']}", answers)


def _span(passage: dict[str, Any], answers: list[str]) -> tuple[dict[str, Any], str] | None:
    """Find an answer as the passage spells it."""
    for answer in answers:
        at = passage["text"].lower().find(answer.lower())
        if at >= 0:
            return passage, passage["text"][at : at + len(answer)]
    return None
