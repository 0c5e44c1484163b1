"""Write the rows the embedded bi-label scorer is trained and calibrated on, from a data folder.

    python scripts/scorer_rows.py DATA OUT

Questions with known answers, most of them without a passage of their own, get BM25's top 20 of a
pool of Wikipedia passages; has_answer is whether an answer stands there (distant supervision: a
name may stand in a passage that says nothing of what was asked). Writes OUT/asked.jsonl, lists of
six for training, and OUT/held.jsonl, whole lists of other questions to calibrate on. Only sets with
a permissive or share-alike licence are read, and no question of a set that measures.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded_rows import passages as embedded_pool
from embedded_rows import reading
from evaluator_facts import facts
from evaluator_rows import is_held, key

from fitrag_integrations.evaluation.answers import contains_answer, normalize
from fitrag_integrations.training.negatives import searching
from fitrag_integrations.training.rows import passage_row, read_jsonl, write_jsonl
from fitrag_integrations.types import Passage

# How many questions of a set are taken at most, of those whose list holds an answer.
SHARES = {
    "nq_oracle/nq_open_gold": 900,
    "qa_only/nq_open_dev": 300,
    "qa_only/nq_dpr_dev": 2200,
    "qa_only/nq_efficientqa_dev": 500,
    "qa_only/webquestions_test": 700,
    "qa_only/triviaqa_dev": 1500,
    "qa_only/triviaqa_test": 1500,
    "qa_only/hotpotqa_dev": 1900,
    "multihop/2wikimultihopqa_train": 150,
    "squad/squad_train_sample": 700,
    "reading/squad_train": 800,
    "reading/squadshifts_new_wiki": 500,
    "reading/timeqa_human": 400,
    "reading/quoref": 300,
    "reading/qed_dev": 90,
}
FACTS = 1600
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
DEPTH, LIST, POSITIVES, NEAR, WORDS, HELD = 20, 6, 2, 6, 130, 500


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a question, its answers, and its list with what each passage holds."""

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    holds: tuple[int, ...]


def main() -> None:
    """Read the questions, retrieve, label, split, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(args.seed)
    pool = _pool(args.data)
    rows = [*_lists(_questions(args.data, pool, chance), pool)]
    chance.shuffle(rows)
    write_jsonl(args.out / "held.jsonl", map(_json, rows[:HELD]))
    write_jsonl(args.out / "asked.jsonl", (_json(_drawn(row, chance)) for row in rows[HELD:]))


def _pool(data: Path) -> list[Passage]:
    gold = (
        passage_row(r["gold_passage"]) for r in read_jsonl(data / "nq_oracle/nq_open_gold.jsonl.gz")
    )
    read = [row for name in ("qed_dev", "clapnq_dev") for row in reading(data, name)]
    return list(dict.fromkeys([*embedded_pool(data, read), *gold]))


def _questions(
    data: Path, pool: list[Passage], chance: random.Random
) -> Iterator[tuple[str, int, str, tuple[str, ...]]]:
    """Give set, its share, question and answers; each question once, in its first set."""
    seen = {key(row["question"]) for pattern in MEASURING for row in _rows(data, pattern)}
    for name, share in SHARES.items():
        rows = [*read_jsonl(data / f"{name}.jsonl.gz")]
        chance.shuffle(rows)
        given = ((row["question"], row["answers"]) for row in rows)
        yield from ((name, share, *one) for one in _fresh(given, seen))
    asked = [fact for p in pool if p.title for fact in facts(p.title, p.text) if fact.answers]
    chance.shuffle(asked)
    given = ((fact.question, fact.answers) for fact in asked[: 2 * FACTS])
    yield from (("facts", FACTS, *one) for one in _fresh(given, seen))


def _rows(data: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(data.glob(pattern)):
        yield from read_jsonl(path)


def _fresh(
    given: Iterable[tuple[str, Iterable[str]]], seen: set[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for question, answers in given:
        usable = tuple(a for a in answers if len(normalize(a)) > 1 and len(a.split()) <= 8)
        if usable and key(question) not in seen and not is_held(question):
            seen.add(key(question))
            yield question, usable


def _lists(
    asked: Iterable[tuple[str, int, str, tuple[str, ...]]], pool: list[Passage]
) -> Iterator[Asked]:
    """Retrieve and label; keep lists with an answer somewhere, and not nearly everywhere."""
    search, taken = searching(pool, depth=DEPTH), dict[str, int]()
    for name, share, question, answers in asked:
        if taken.get(name, 0) >= share:
            continue
        (found,) = search([question])
        holds = tuple(int(contains_answer(f"{p.title} {p.text}", answers)) for p in found)
        if 0 < sum(holds) <= 14:
            taken[name] = taken.get(name, 0) + 1
            yield Asked(question, answers, tuple(found), holds)


def _drawn(row: Asked, chance: random.Random) -> Asked:
    """Draw two passages with the answer and four without, half of these from the best ranked."""
    first = [i for i, holds in enumerate(row.holds) if holds]
    others = [i for i, holds in enumerate(row.holds) if not holds]
    chosen = chance.sample(first, min(POSITIVES, len(first)))
    left = LIST - len(chosen)
    near = chance.sample(others[:NEAR], min(left // 2, len(others[:NEAR])))
    rest = [i for i in others if i not in near]
    chosen += near + chance.sample(rest, min(left - len(near), len(rest)))
    cut = tuple(_cropped(row, i, chance) for i in chosen)
    return Asked(row.question, row.answers, cut, tuple(row.holds[i] for i in chosen))


def _cropped(row: Asked, i: int, chance: random.Random) -> Passage:
    """Cut a longer passage to a stretch of 130 words, round an answer where it holds one."""
    passage = row.passages[i]
    words = [*re.finditer(r"\S+", passage.text)]
    last = len(words) - WORDS
    if last <= 10:
        return passage
    place = next(filter(None, (_place(a, words, passage.text) for a in row.answers)), None)
    if row.holds[i] and place is None:
        return passage  # the answer is in the title, or written otherwise
    low, high = (0, last) if place is None else (max(0, place[1] - WORDS + 1), min(place[0], last))
    at = chance.randint(min(low, high), high)
    text = passage.text[words[at].start() : words[at + WORDS - 1].end()]
    return Passage("", text, passage.title)


def _place(answer: str, words: list[re.Match[str]], text: str) -> tuple[int, int] | None:
    found = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE)
    if not found:
        return None
    inside = [i for i, w in enumerate(words) if w.end() > found.start() and w.start() < found.end()]
    return inside[0], inside[-1]


def _json(row: Asked) -> dict[str, Any]:
    pairs = zip(row.passages, row.holds, strict=True)
    passages = [{"title": p.title, "text": p.text, "has_answer": holds} for p, holds in pairs]
    return {"question": row.question, "answers": list(row.answers), "passages": passages}


if __name__ == "__main__":
    main()
