"""Write the judged rows the embedded evaluator is trained and calibrated on, from a data folder.

    python scripts/evaluator_rows.py DATA OUT

Writes OUT/train.jsonl and OUT/held.jsonl, lists of up to five passages with has_answer. What makes
them hard: in many the passage on the very subject is there with the answer taken out of it, or is
left out beside passages on a namesake. No question that DATA/odqa_retrieved measures is taken, and
only sets with a permissive or share-alike licence are read.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedded_rows import multihop, reading, sample
from evaluator_facts import facts, silenced
from sklearn.feature_extraction.text import TfidfVectorizer

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.training.negatives import candidates
from fitrag_integrations.training.rows import (
    Judged,
    ReadingRow,
    judged_json,
    passage_row,
    read_jsonl,
    write_jsonl,
)
from fitrag_integrations.types import Passage

SOURCES = ("squad_train", "hotpotqa", "2wikimultihopqa", "hipporag_2wiki", "nq_oracle")
NEAR = ("hotpotqa_dev_pool", "qed_dev", "timeqa_human", "squadshifts_new_wiki", "squad_train")
CAP, ENTITIES, WORDS, LIST, HELD = 1200, 2500, 100, 5, 0.2


def main() -> None:
    """Read the sets, make lists, split by question, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=29)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(args.seed)
    pool = [*_pool(args.data)]
    asked = [*_searched(args.data), *multihop(args.data)]
    asked += [row for name in NEAR for row in sample(reading(args.data, name), CAP, chance)]
    pool = list(dict.fromkeys([*pool, *(row.passage for row in asked)]))
    ranked = candidates([row.question for row in asked], pool, depth=12)
    rows = [_list(row, near, chance) for row, near in zip(asked, ranked, strict=True)]
    rows += _entities(pool, chance)
    measured = {key(question) for question in _measured(args.data)}
    rows = [row for row in rows if len(row.passages) > 2 and key(row.question) not in measured]
    chance.shuffle(rows)
    for name, held in (("train", False), ("held", True)):
        chosen = (row for row in rows if is_held(row.question) is held)
        write_jsonl(args.out / f"{name}.jsonl", map(judged_json, chosen))


def _pool(data: Path) -> Iterator[Passage]:
    for row in read_jsonl(data / "wikipool" / "passages.jsonl.gz"):
        if str(row["src"]).startswith(SOURCES):
            yield passage_row(row)


def _searched(data: Path) -> Iterator[ReadingRow]:
    """Take what people typed into a search engine, three lists of each question with an answer."""
    for row in read_jsonl(data / "nq_oracle" / "nq_open_gold.jsonl.gz"):
        gold = passage_row(row["gold_passage"])
        yield from [ReadingRow(row["question"], tuple(row["answers"]), gold)] * 3
    yield from reading(data, "clapnq_dev")
    for row in [*read_jsonl(data / "reading" / "boolq_yesno.jsonl.gz")][:CAP]:
        yield ReadingRow(row["question"], (), passage_row(row["passage"]))


def _list(row: ReadingRow, near: list[Passage], chance: random.Random) -> Judged:
    """Put the right passage, or what is left of it without the answer, among its neighbours."""
    gold, answers = _cropped(row.passage, chance, row.answers), row.answers
    others = [p for p in near if p.text != row.passage.text and bool(p.title) == bool(gold.title)]
    others = [_cropped(p, chance) for p in others if not _holds(p, answers)]
    draw, kept = chance.random(), list[Passage]()
    left = _without(gold, answers)
    if draw < 0.55:
        kept.append(gold)
        if left and chance.random() < 0.5:
            kept.append(left)
    elif draw < 0.82 and left:
        kept.append(left)
    return _judged(row.question, answers, [*kept, *others], chance, right=gold)


def _entities(pool: list[Passage], chance: random.Random) -> list[Judged]:
    """Ask about the subjects of articles; namesakes and neighbours are near in letters or words."""
    titled = [p for p in pool if p.title and len(p.text.split()) >= 10]
    asked = [(p, fact) for p in titled for fact in facts(p.title, p.text)]
    chance.shuffle(asked)
    answered = [a for a in asked if a[1].answers][:ENTITIES]
    asked = answered + [a for a in asked if not a[1].answers][: ENTITIES // 5]
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    names = letters.fit_transform(p.title for p in titled)
    ranked = candidates([fact.question for _, fact in asked], titled, depth=8)
    rows = []
    for (passage, fact), near in zip(asked, ranked, strict=True):
        alike = (names @ letters.transform([passage.title]).T).toarray().ravel().argsort()[::-1][:8]
        both = [p for pair in zip([titled[i] for i in alike], near, strict=False) for p in pair]
        draw = chance.random()
        others = [p for p in dict.fromkeys(both) if p.title != passage.title]
        silent = Passage("", silenced(passage.text, fact.answers), passage.title)
        first = [] if 0.5 < draw < 0.7 else [passage if draw <= 0.5 else silent]
        some = [_cropped(p, chance) for p in [*first, *others]]
        rows.append(_judged(fact.question, fact.answers, some, chance))
    return rows


def _judged(
    question: str,
    answers: tuple[str, ...],
    passages: list[Passage],
    chance: random.Random,
    *,
    right: Passage | None = None,
) -> Judged:
    chosen = passages[:LIST]
    chance.shuffle(chosen)
    holds = tuple(int(p is right or _holds(p, answers)) for p in chosen)
    if chance.random() < 0.4:
        question = question.rstrip("?").strip()
    return Judged(question, answers, tuple(chosen), holds)


def _without(passage: Passage, answers: tuple[str, ...]) -> Passage | None:
    """Drop the sentences that hold an answer; None where none does, or little is left."""
    text = passage.text
    sentences = [text[start:end] for start, end in split_sentences(text)]
    kept = [s for s in sentences if not contains_answer(s, answers)]
    left = Passage("", " ".join(kept), passage.title)
    short = len(left.text.split()) < 12 or len(kept) == len(sentences)
    return None if short or _holds(left, answers) else left


def _cropped(passage: Passage, chance: random.Random, around: tuple[str, ...] = ()) -> Passage:
    """Cut a stretch of about a hundred words, round the first answer where there is one."""
    words = [*re.finditer(r"\S+", passage.text)]
    last = len(words) - WORDS
    if last <= 20:
        return passage
    at = passage.text.lower().find(around[0].lower()) if around else -1
    place = next((i for i, word in enumerate(words) if at >= 0 and word.end() > at), None)
    low, high = (0, last) if place is None else (max(0, place - 80), min(place, last))
    first = chance.randint(min(low, high), high)
    text = passage.text[words[first].start() : words[first + WORDS - 1].end()]
    return Passage("", text, passage.title)


def _holds(passage: Passage, answers: tuple[str, ...]) -> bool:
    return contains_answer(f"{passage.title} {passage.text}", answers)


def _measured(data: Path) -> Iterator[str]:
    for path in (data / "odqa_retrieved").glob("*.jsonl.gz"):
        row: dict[str, Any]
        for row in read_jsonl(path):
            yield row["question"]


def key(question: str) -> str:
    return re.sub(r"\W+", " ", question.lower()).strip()


def is_held(question: str) -> bool:
    digest = hashlib.sha1(key(question).encode()).hexdigest()
    return int(digest[:8], 16) % 100 < 100 * HELD


if __name__ == "__main__":
    main()
