"""Write the questions the embedded detector is trained on, from the sets in a data folder.

    python scripts/eligibility_rows.py DATA OUT

Writes OUT: questions with answers and the passages BM25 found for them, five to ten each:
NQ-open, HotpotQA, 2Wiki and SQuAD train (CC BY-SA, Apache-2.0), shuffled. Passages of sets with
another licence are left out of the lists, and so is every question of the sets that measure, and
all but those held out of what the scorer was trained on: it is too sure of the others.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from embedded_rows import is_held  # noqa: E402

from fitrag_integrations.evaluation.answers import normalize
from fitrag_integrations.training.rows import read_jsonl, write_jsonl

QUESTIONS = {"nq_open_gold": 220, "squad_train": 50}
MULTIHOP = {"hotpotqa_train": 50, "2wikimultihopqa_train": 40}
LENGTHS = (5, 5, 6, 8, 10)  # passages in a list
LICENSED = ("nq_oracle", "squad_train", "hotpotqa_train", "2wikimultihopqa_train", "hipporag_2wiki")
MEASURING = ("nq_top5", "popqa_top5", "triviaqa_top5", "asqa_top5", "2wiki_top10")
Row = dict[str, Any]


def main() -> None:
    """Gather the lists, sample, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    measured = set(measuring(args.data))
    every = [*pooled(args.data), *multihop(args.data)]
    fresh = [row for row in every if normalize(row["question"]) not in measured]
    fresh = [row for row in fresh if is_held(row["question"])]
    rows = []
    for name, most in {**QUESTIONS, **MULTIHOP}.items():
        own = [row for row in fresh if row["set"] == name]
        rows += chance.sample(own, min(most, len(own)))
    chance.shuffle(rows)
    rows = [{**row, "passages": row["passages"][: chance.choice(LENGTHS)]} for row in rows]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_jsonl(args.out, rows)


def measuring(data: Path) -> Iterator[str]:
    """Give the questions that measure, normalised."""
    for name in MEASURING:
        for row in read_jsonl(data / "odqa_retrieved" / f"{name}.jsonl.gz"):
            yield normalize(row["question"])


def pooled(data: Path) -> Iterator[Row]:
    """Give questions with those of their BM25 candidates whose licence allows it."""
    texts = {
        row["id"]: {"title": row["title"], "text": row["text"]}
        for row in read_jsonl(data / "wikipool" / "passages.jsonl.gz")
        if any(source in str(row["src"]) for source in LICENSED)
    }
    for row in read_jsonl(data / "wikipool" / "bm25_top20.jsonl.gz"):
        passages = [texts[name] for name in row["candidates"] if name in texts]
        if row["dataset"] in QUESTIONS and len(passages) >= 5:
            yield _row(row, passages, row["dataset"])


def multihop(data: Path) -> Iterator[Row]:
    """Give the training questions of HotpotQA and 2Wiki with their ten paragraphs."""
    for name in MULTIHOP:
        for row in read_jsonl(data / "multihop" / f"{name}.jsonl.gz"):
            passages = [{"title": p["title"], "text": p["text"]} for p in row["passages"]]
            yield _row(row, passages, name)


def _row(row: Row, passages: list[Row], name: str) -> Row:
    asked = {"question": row["question"], "answers": row["answers"], "set": name}
    return {**asked, "passages": passages}


if __name__ == "__main__":
    main()
