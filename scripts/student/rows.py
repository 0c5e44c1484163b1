"""Write the lists the student is trained, chosen and fitted on, from the shared data folder.

    python scripts/student/rows.py DATA OUT

Only sets whose licence permits shipping what is made of them, no question of a set that measures,
and of SQuAD's dev set neither a question nor a paragraph. OUT/train.jsonl has the training items,
OUT/held.jsonl items to choose by, OUT/lists.jsonl lists of five that the actions are fitted on,
OUT/pool.jsonl the passages. An item is

    {"kind", "question", "answers", "passages": [{"title", "text", "has", "right", "spans"}]}

`has` is whether an answer stands there as whole tokens (null where no answer is known), `right`
whether the passage answers the question (null where only the string is known), `spans` the
characters of the answers, [] where there is none, null where it is not known.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dense import dense_search  # noqa: E402
from embedded_rows import (  # noqa: E402
    MEASURING,
    is_held,
    key,
    multihop,
    reading,
    rows_of,
    sample,
    squad_sample,
)
from entity_facts import facts  # noqa: E402
from twists import chatty, twisted  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer, normalize  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.training.negatives import searching
from fitrag_integrations.training.rows import (  # noqa: E402
    ReadingRow,
    passage_row,
    read_jsonl,
    write_jsonl,
)
from fitrag_integrations.types import Passage  # noqa: E402

POOL = ("squad_train", "hotpotqa_train", "2wikimultihopqa_train", "hipporag_2wiki", "nq_oracle")
POOLED = (
    "squad_train",
    "squadshifts_new_wiki",
    "timeqa_human",
    "quoref",
    "hotpotqa_dev_pool",
    "qed_dev",
    "clapnq_dev",
    "selqa_sections",
)
ASKED = {  # questions of a set that are asked; about half find a list that holds an answer
    "qa_only/nq_dpr_dev": 4600,
    "qa_only/nq_open_dev": 700,
    "qa_only/nq_efficientqa_dev": 900,
    "nq_oracle/nq_open_gold": 1100,
    "qa_only/triviaqa_dev": 1700,
    "qa_only/triviaqa_test": 1700,
    "qa_only/webquestions_test": 700,
    "qa_only/hotpotqa_dev": 2400,
    "multihop/2wikimultihopqa_train": 120,
    "multihop/hotpotqa_train": 150,
    "reading/squad_train": 1300,
    "reading/squadshifts_new_wiki": 500,
    "reading/timeqa_human": 200,
    "facts": 1400,
}
READ = {
    "squad_train": 17000,
    "squadshifts_new_wiki": 4500,
    "quoref": 900,
    "timeqa_human": 700,
    "fairytaleqa": 700,
    "qed_dev": 250,
    "hotpotqa_dev_pool": 350,
}
READ_SAMPLE = 3000
DEPTH, LIST = 50, 6
WORDS = (60, 90, 110, 140, 400)
NEAR, LEFT, TWISTED = 0.3, 0.1, 0.4
HELD = {"rank": 600, "read": 500}  # what is chosen by, of which a third find no answer
LISTS = 1200


def main() -> None:
    """Make everything from one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--held", action="store_true", help="only what is held out")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(args.seed)
    pool = pooled(args.data)
    write_jsonl(args.out / "pool.jsonl", ({"title": p.title, "text": p.text} for p in pool))
    print(len(pool), "passages", flush=True)
    finders = [
        searching(pool, depth=DEPTH),
        dense_search(pool, args.out / "dense.safetensors", depth=DEPTH),
    ]
    measured = {
        key(row["question"]) for pattern in MEASURING for row in rows_of(args.data, pattern)
    }
    measured |= {key(q) for q in sampled(args.data)}
    chosen = [*asked(args.data, pool, measured, chance)]
    for held in (True,) if args.held else (True, False):
        kept = [(name, *row) for name, row in chosen if is_held(row[0]) is held]
        ranked = [find([question for _, question, _ in kept]) for find in finders]
        found = [(*row, both) for row, *both in zip(kept, *ranked, strict=True)]
        rows = random.Random(args.seed) if held else chance
        read = readings(args.data, measured, finders[0], rows, held)
        if held:
            write_held(args.out, found, [*read], rows)
        else:
            items = [*made(listed(found, chance))]
            items += [item for item in read if not is_held(item["origin"])]
            chance.shuffle(items)
            write_jsonl(args.out / "train.jsonl", items)


def write_held(out: Path, lists: list[Any], read: list[Any], chance: random.Random) -> None:
    """Write what is chosen by, and the lists that the actions are fitted on."""
    chance.shuffle(lists)
    whole = [*made(wholes(lists[: HELD["rank"]]))]
    write_jsonl(out / "held.jsonl", whole + chance.sample(read, min(HELD["read"], len(read))))
    write_jsonl(out / "lists.jsonl", made(fives(lists[HELD["rank"] :][:LISTS], chance)))


def pooled(data: Path) -> list[Passage]:
    """Gather the passages that may be retrieved."""
    found: dict[Passage, None] = {}
    for row in read_jsonl(data / "wikipool" / "passages.jsonl.gz"):
        sources = row["src"] if isinstance(row["src"], list) else [row["src"]]
        if any(str(one) in POOL for one in sources):
            found[passage_row(row)] = None
    for name in POOLED:
        for row in reading(data, name):
            found[row.passage] = None
            found |= dict.fromkeys(row.negatives if name == "hotpotqa_dev_pool" else ())
    for row in read_jsonl(data / "reading" / "boolq_yesno.jsonl.gz"):
        found[passage_row(row["passage"])] = None
    for row in squad_sample(data):
        found[row.passage] = None
    for row in [*read_jsonl(data / "pubmedqa" / "pubmedqa_labeled.jsonl.gz")]:
        found[Passage("", " ".join(row["contexts"]), "")] = None
    texts = {p.text: p for p in found if 12 <= len(p.text.split()) <= 400}
    return list(texts.values())


def sampled(data: Path) -> Iterator[str]:
    """Give the NQ questions that the shared ranking script draws by seeds 7 and 1."""
    every = [
        row
        for row in read_jsonl(data / "wikipool" / "bm25_top20.jsonl.gz")
        if row["dataset"] == "nq_open_gold"
    ]
    for seed in (7, 1):
        drawn = list(every)
        random.Random(seed).shuffle(drawn)
        yield from (row["question"] for row in drawn[:60])


def asked(
    data: Path, pool: list[Passage], seen: set[str], chance: random.Random
) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Give questions with short answers, each once; a quarter more than wanted, for the held."""
    for name, share in ASKED.items():
        if name == "facts":
            every = [fact for p in pool if p.title for fact in facts(p.title, p.text)]
            given: list[tuple[str, Sequence[str]]] = [
                (f.question, f.answers) for f in every if f.answers
            ]
        else:
            given = [(r["question"], r["answers"]) for r in read_jsonl(data / f"{name}.jsonl.gz")]
        chance.shuffle(given)
        taken = 0
        for question, answers in given:
            short = tuple(a for a in answers if len(normalize(a)) > 1 and len(a.split()) <= 8)
            if not short or key(question) in seen or {normalize(a) for a in short} <= {"yes", "no"}:
                continue
            if taken >= share * 1.25:
                break
            seen.add(key(question))
            taken += 1
            yield name, (question, short)


def listed(rows: Iterable[Any], chance: random.Random) -> Iterator[Any]:
    """Draw six of what was found: up to two with an answer, three of the first, else the rest."""
    for name, question, answers, found in rows:
        ranked = found[1] if chance.random() < 0.4 else found[0]
        flags = [holds(p, answers) for p in ranked]
        if not 0 < sum(flags) <= len(ranked) * 0.7:
            continue
        yes = [i for i, f in enumerate(flags) if f]
        no = [i for i, f in enumerate(flags) if not f]
        first = chance.sample(yes[:4], 1)
        chosen = first + chance.sample([i for i in yes if i not in first], min(1, len(yes) - 1))
        near = chance.sample(no[:10], min(3, len(no)))
        rest = [i for i in no if i not in near]
        chosen += near + chance.sample(rest, min(LIST - len(chosen) - len(near), len(rest)))
        yield name, question, answers, [ranked[i] for i in chosen], chance


def wholes(rows: Iterable[Any]) -> Iterator[Any]:
    """Take the first dozen of BM25's, to choose by."""
    for name, question, answers, found in rows:
        flags = [holds(p, answers) for p in found[0][:12]]
        if any(flags):
            yield name, question, answers, found[0][:12], None


def fives(rows: Iterable[Any], chance: random.Random) -> Iterator[Any]:
    """Take the first five of either retriever's, or of both in turn, whether they hold or not."""
    for name, question, answers, found in rows:
        turns = [p for both in zip(*found, strict=False) for p in both]
        ranked = chance.choice([*found, list(dict.fromkeys(turns))])
        yield name, question, answers, ranked[:5], None


def made(rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Make items of lists."""
    for name, question, answers, passages, chance in rows:
        cut = [cropped(p, chance, answers) if chance else p for p in passages]
        spans = [places(p.text, answers) for p in cut]
        shown = chatty(question, chance) if chance and chance.random() < 0.08 else question
        yield {
            "kind": "rank",
            "set": name,
            "question": shown,
            "answers": answers,
            "passages": [
                told(
                    p,
                    holds(p, answers),
                    None if holds(p, answers) else 0,
                    s if holds(p, answers) else [],
                )
                for p, s in zip(cut, spans, strict=True)
            ],
        }


def told(p: Passage, has: bool | None, right: int | None, spans: Any) -> dict[str, Any]:
    """Make the JSON of a passage in an item."""
    kept = None if spans == [] and has else spans
    return {
        "title": p.title,
        "text": p.text,
        "has": None if has is None else int(has),
        "right": right,
        "spans": kept,
    }


def readings(
    data: Path, measured: set[str], search: Any, chance: random.Random, held: bool
) -> Iterator[dict[str, Any]]:
    """Give questions with the passage that answers them, and what is near but does not."""
    rows: list[ReadingRow] = []
    for name, share in READ.items():
        rows += sample(reading(data, name), share, chance)
    rows += chance.sample([*squad_sample(data)], READ_SAMPLE)
    rows += multihop(data)
    rows = [row for row in rows if key(row.question) not in measured and row.answers]
    rows = [row for row in rows if not held or is_held(row.question)]
    for row in rows:
        gold = cropped(row.passage, chance, row.answers, row.answer_start)
        spans = places(gold.text, row.answers[:1], row.passage, row.answer_start, gold)
        if not spans:
            continue
        question = chatty(row.question, chance) if chance.random() < 0.06 else row.question
        base = {"set": "", "answers": row.answers, "origin": row.question}
        right = told(gold, True, 1, spans)
        draw = chance.random()
        others = []
        if draw < NEAR:
            near = next(
                (p for p in search([row.question])[0][:8] if not holds(p, row.answers)), None
            )
            others = [] if near is None else [told(cropped(near, chance, ()), False, 0, [])]
        elif draw < NEAR + LEFT and (left := without(gold, row.answers)):
            others = [told(left, False, 0, [])]
        yield {**base, "kind": "read", "question": question, "passages": [right, *others]}
        if chance.random() < TWISTED and (
            other := twisted(row.question, gold.text, row.answers[0], chance)
        ):
            passages = [told(gold, None, 0, [])]
            yield {**base, "kind": "twist", "question": other, "passages": passages}


def holds(passage: Passage, answers: Sequence[str]) -> bool:
    """Say whether an answer stands in title or text."""
    return bool(contains_answer(f"{passage.title} {passage.text}", answers))


def places(
    text: str,
    answers: Sequence[str],
    whole: Passage | None = None,
    start: int | None = None,
    cut: Passage | None = None,
) -> list[list[int]]:
    """Find the answers' characters; of a span that is known, that one alone."""
    if whole is not None and start is not None and cut is not None:
        at = start - whole.text.find(cut.text)
        if at >= 0 and text[at : at + len(answers[0])] == answers[0]:
            return [[at, at + len(answers[0])]]
    found = [
        [m.start(), m.end()]
        for answer in answers
        for m in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE)
    ]
    return found[:6]


def without(passage: Passage, answers: Sequence[str]) -> Passage | None:
    """Take the sentences with an answer out; None where little is left."""
    parts = [passage.text[a:b] for a, b in split_sentences(passage.text)]
    kept = [part for part in parts if not contains_answer(part, answers)]
    left = Passage("", " ".join(kept), passage.title)
    short = len(left.text.split()) < 12 or len(kept) == len(parts)
    return None if short or holds(left, answers) else left


def cropped(
    passage: Passage, chance: random.Random, answers: Sequence[str], start: int | None = None
) -> Passage:
    """Cut a longer passage to a stretch of 60 words or more, round an answer where one is."""
    words = [*re.finditer(r"\S+", passage.text)]
    most = chance.choice(WORDS)
    last = len(words) - most
    if last <= 15:
        return passage
    at = start
    if at is None:
        at = next((s[0][0] for a in answers if (s := places(passage.text, [a]))), None)
    if at is None and answers and holds(passage, answers):
        return (
            Passage("", passage.text[: words[most + 40].end()], passage.title)
            if len(words) > most + 41
            else passage
        )
    place = next((i for i, w in enumerate(words) if at is not None and w.end() > at), None)
    low, high = (0, last) if place is None else (max(0, place - most + 8), min(place, last))
    first = chance.randint(min(low, high), high)
    text = passage.text[words[first].start() : words[first + most - 1].end()]
    return Passage("", text, passage.title)


if __name__ == "__main__":
    main()
