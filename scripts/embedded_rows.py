"""Write the rows the embedded reader is trained and calibrated on, from the sets in a data folder.

    python scripts/embedded_rows.py DATA OUT

Writes OUT/reading.jsonl (questions, passages with the answer, BM25 negatives), OUT/scorer.jsonl
(questions the reader is calibrated on and the one-pass head learns from: some kept from the reader,
and questions people typed into a search engine) and OUT/pool.jsonl (passages to find candidates
in). Only sets with a permissive or share-alike licence are read, and none of those that measure.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.training.negatives import mine_negatives
from fitrag_integrations.training.rows import (
    ReadingRow,
    passage_row,
    read_jsonl,
    reading_json,
    reading_row,
    write_jsonl,
)
from fitrag_integrations.types import Passage

# Sets whose passages are single sentences find their negatives among their own kind, stories and
# reports bring negatives of their own. A number caps the rows of a set that would crowd the others.
POOLED = (
    "squad_train",
    "squadshifts_new_wiki",
    "selqa_sections",
    "timeqa_human",
    "quoref",
    "hotpotqa_dev_pool",
    "qed_dev",
)
SENTENCES = {"squad_train_sentences": 0, "qamr_sentences": 6000}
OWN_NEGATIVES = {"fairytaleqa": 3000}
POOL_SOURCES = ("squad_train", "hotpotqa_train", "2wikimultihopqa_train", "hipporag_2wiki")
LONGEST_ANSWER = 12
UNSEEN = 560
SEARCHED = {"qed_dev": 100, "clapnq_dev": 170, "boolq_yesno": 150}


def main() -> None:
    """Read the sets, mine the negatives, split, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(args.seed)
    pooled = [row for name in POOLED for row in reading(args.data, name)]
    pooled += [*squad_sample(args.data), *multihop(args.data)]
    pool = passages(args.data, pooled)
    rows = mine_negatives(pooled, pool)
    for name, cap in SENTENCES.items():
        given = sample(reading(args.data, name), cap, chance)
        own = list(dict.fromkeys(row.passage for row in given))
        rows += mine_negatives(given, own, keep=6)
    for name, cap in OWN_NEGATIVES.items():
        rows += sample(reading(args.data, name), cap, chance)
    chance.shuffle(rows)
    whole = [row for row in rows if row.passage.title or len(row.passage.text.split()) > 40]
    kept = {id(row) for row in whole[:UNSEEN]}
    typed = searched(args.data, chance)
    scorer = [replace(row, negatives=()) for row in whole[:UNSEEN]] + typed
    chance.shuffle(scorer)
    pool = list(dict.fromkeys([*pool, *(row.passage for row in typed)]))
    write_jsonl(args.out / "reading.jsonl", (reading_json(r) for r in rows if id(r) not in kept))
    write_jsonl(args.out / "scorer.jsonl", map(reading_json, scorer))
    write_jsonl(args.out / "pool.jsonl", ({"title": p.title, "text": p.text} for p in pool))


def reading(data: Path, name: str) -> list[ReadingRow]:
    """Read a set of spans; answers of more than a dozen words are no short answers."""
    rows = map(reading_row, read_jsonl(data / "reading" / f"{name}.jsonl.gz"))
    return [row for row in rows if row.answers and len(row.answers[0].split()) <= LONGEST_ANSWER]


def searched(data: Path, chance: random.Random) -> list[ReadingRow]:
    """Take search-engine questions; of long or yes/no answers only the passage is known."""
    rows = sample(reading(data, "qed_dev"), SEARCHED["qed_dev"], chance)
    for name in ("clapnq_dev", "boolq_yesno"):
        every = map(reading_row, read_jsonl(data / "reading" / f"{name}.jsonl.gz"))
        short = [row for row in every if len(row.passage.text.split()) <= 250]
        rows += [
            replace(row, answers=(), answer_start=None)
            for row in sample(short, SEARCHED[name], chance)
        ]
    return [replace(row, negatives=()) for row in rows]


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


def passages(data: Path, rows: list[ReadingRow]) -> list[Passage]:
    """Gather the passages negatives are found in: those of the rows and of the wiki pool."""
    pool = dict.fromkeys(row.passage for row in rows)
    pool |= dict.fromkeys(p for row in rows for p in row.negatives)
    for row in read_jsonl(data / "reading" / "boolq_yesno.jsonl.gz"):
        pool[passage_row(row["passage"])] = None
    for row in read_jsonl(data / "wikipool" / "passages.jsonl.gz"):
        if any(source in str(row["src"]) for source in POOL_SOURCES):
            pool[passage_row(row)] = None
    return [passage for passage in pool if len(passage.text.split()) <= 400]


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


if __name__ == "__main__":
    main()
