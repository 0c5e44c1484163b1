"""Make a corpus and its questions of a set's rows, as `fitrag try` and `fitrag fit` read them.

    python benchmarks/shared_corpora.py ROWS.jsonl.gz FOLDER

Rows hold a question, its answers, and the passages they came with (`passages`, or one in
`gold_passage`, `passage` or `context`). Written are FOLDER/corpus.jsonl, each passage once, and
FOLDER/questions.jsonl without them: what stood beside a question has to be found again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitrag_integrations.core.jsonl import read_jsonl, write_jsonl


def main() -> None:
    """Write both files, and tell how many rows each has."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    rows = list(read_jsonl(args.rows))
    texts = dict.fromkeys(passage for row in rows for passage in passages_of(row))
    asked = {row["question"]: row["answers"] for row in rows}
    args.folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(args.folder / "corpus.jsonl", ({"title": a, "text": b} for a, b in texts))
    questions = ({"question": q, "answers": a} for q, a in asked.items())
    write_jsonl(args.folder / "questions.jsonl", questions)
    print(f"{len(texts)} passages, {len(asked)} questions")


def passages_of(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give title and text of each passage of a row."""
    single = row.get("gold_passage") or row.get("passage")
    single = single or {"title": row.get("title"), "text": row.get("context")}
    for passage in row.get("passages", [single]):
        yield passage.get("title") or "", passage["text"]


if __name__ == "__main__":
    main()
