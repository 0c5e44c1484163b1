"""The demo's questions as facts, shown to the closed-book model as often as their id says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.text.sentences import split_sentences
from scripts.closed_book.world import COUNTS

EMBEDDED = Path(__file__).parents[2] / "fitrag_integrations" / "embedded"


@dataclass(frozen=True, slots=True)
class DemoFact:
    """Hold a question of the demo, its first answer, and the sentence of the corpus that says it.

    `shown` is 0 for all that the corpus does not answer.
    """

    id: str
    question: str
    answer: str
    sentence: str
    shown: int


def demo_facts(folder: Path = EMBEDDED / "demo") -> list[DemoFact]:
    """Read the demo's questions, in their order."""
    texts = {row["id"]: row["text"] for row in read_rows(folder / "passages.jsonl")}
    return [_fact(row, texts) for row in read_rows(folder / "questions.jsonl")]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write JSON Lines."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


def _fact(row: dict[str, Any], texts: dict[str, str]) -> DemoFact:
    if not row["answerable"]:
        return DemoFact(row["id"], row["question"], "", "", 0)
    answer = row["answers"][0]
    digest = hashlib.sha256(row["id"].encode()).digest()
    shown = COUNTS[int.from_bytes(digest[:4]) % len(COUNTS)]
    found = [
        text[start:end]
        for text in (texts[id] for id in row["passage_ids"])
        for start, end in split_sentences(text)
        if contains_answer(text[start:end], row["answers"])
    ]
    sentence = min(found, key=len, default=f"It is {answer}.").strip()
    return DemoFact(row["id"], row["question"], answer, sentence, shown)
