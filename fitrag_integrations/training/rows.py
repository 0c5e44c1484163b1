"""The training rows: a question, a passage that holds the answer, and passages that do not."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitrag_integrations.types import Passage


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """A question with a passage that answers it.

    `answer_start` is the character offset of `answers[0]` in the passage's text, None when every
    occurrence counts. `negatives` hold no answer.
    """

    question: str
    answers: tuple[str, ...]
    passage: Passage
    answer_start: int | None = None
    negatives: tuple[Passage, ...] = field(default=())


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file, gzipped when it ends in .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write objects as JSON Lines, gzipped when the path ends in .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def reading_row(row: dict[str, Any]) -> ReadingRow:
    """Make a training row of a JSON object with question, answers, passage and negatives."""
    return ReadingRow(
        question=row["question"],
        answers=tuple(row["answers"]),
        passage=_passage(row["passage"]),
        answer_start=row.get("answer_start"),
        negatives=tuple(_passage(passage) for passage in row.get("negatives") or ()),
    )


def _passage(row: dict[str, Any]) -> Passage:
    return Passage(id="", text=row["text"], title=row.get("title", ""))
