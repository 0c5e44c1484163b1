"""Measure what ships and the student on the shared sets, as `measure/*.py` there do, row by row.

    python scripts/student/measure.py DATA ask shipped SHIPPED.json
    python scripts/student/measure.py DATA ask student STUDENT.json --model FOLDER
    python scripts/student/measure.py DATA tell SHIPPED.json STUDENT.json

`ask` stores what a system says of every pair, `tell` makes figures of what both were asked: ranking
of BM25's top 20 (seeds 7 and 1, 60 questions a set; others, by which the part kept is chosen; two
sets that nothing was ever chosen by), the reader's F1, the evaluator's actions,
compression at shares of the words, and abstention on questions that their passage does not answer;
each with the difference on the same rows and where 95 % of bootstrap samples lie. Nothing is fitted
on these sets, and but by those others nothing chosen.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from reference import sigmoid  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer, token_f1  # noqa: E402
from fitrag_integrations.evaluation.outcomes import calibration_error  # noqa: E402
from fitrag_integrations.evaluation.ranking import reciprocal_rank  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences  # noqa: E402

RANKED = ("nq_open_gold", "squad_dev", "hotpotqa", "popqa", "triviaqa")
RETRIEVED = ("nq", "popqa", "triviaqa")
UNSEEN = ("2wikimultihopqa", "musique")
SEEDS, CHOOSING, PER_SET, UNANSWERED = (7, 1), 3, 60, 400
SHARES = (0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
POINTS = 0.02  # of F1, the price of abstaining
Row = dict[str, Any]
Told = dict[str, Any]  # one pair: has, prefer, grade, answer, score, spans[[start, end, logit]]
Table = dict[str, tuple[Any, Any]]  # of a figure: each row's value, and truth where it is an AUC


def rows(path: Path) -> list[Row]:
    """Read a gzipped file of JSON lines."""
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def sample(given: Iterable[Row], n: int, seed: int) -> list[Row]:
    """Draw as the shared scripts do."""
    drawn = list(given)
    random.Random(seed).shuffle(drawn)
    return drawn[:n]


def ranked(data: Path, seed: int, sets: Sequence[str] = RANKED, count: int = PER_SET) -> list[Row]:
    """Give the ranking's questions, each with its 20 passages in BM25's order."""
    texts = {row["id"]: row for row in rows(data / "wikipool/passages.jsonl.gz")}
    by: dict[str, list[Row]] = {}
    for row in rows(data / "wikipool/bm25_top20.jsonl.gz"):
        by.setdefault(row["dataset"], []).append(row)
    return [
        {
            "set": name,
            "question": row["question"],
            "gold": row["has_answer"],
            "passages": [[texts[c]["title"], texts[c]["text"]] for c in row["candidates"]],
        }
        for name in sets
        for row in sample(by[name], count, seed)
    ]


def choosing(data: Path) -> list[Row]:
    """Give other questions of four of the sets: part of NQ-open was trained on."""
    used = {row["question"] for seed in SEEDS for row in ranked(data, seed)}
    return [row for row in ranked(data, CHOOSING, RANKED[1:]) if row["question"] not in used]


def retrieved(data: Path, name: str) -> list[Row]:
    """Give a set of really retrieved lists of five."""
    return [
        {
            "question": row["question"],
            "answers": row["answers"],
            "gold": [int(p["has_answer"]) for p in row["passages"]],
            "passages": [[p["title"] or "", p["text"]] for p in row["passages"]],
        }
        for row in rows(data / f"odqa_retrieved/{name}_top5.jsonl.gz")
    ]


def read(data: Path) -> dict[str, list[Row]]:
    """Give SQuAD dev questions with their paragraph, and SQuAD 2's that theirs does not answer."""
    every = [r for r in rows(data / "reading/unanswerable.jsonl.gz") if "squad" in r["source"]]
    given = {
        "answerable": [
            (row, {"title": row["title"], "text": row["context"]}, row["answers"])
            for row in rows(data / "squad/squad_dev_xquad_en.jsonl.gz")
        ],
        "unanswerable": [(row, row["passage"], []) for row in sample(every, UNANSWERED, 7)],
    }
    return {
        name: [
            {
                "question": row["question"],
                "answers": answers,
                "passages": [[(p["title"] or "").replace("_", " "), p["text"]]],
            }
            for row, p, answers in some
        ]
        for name, some in given.items()
    }


def everything(data: Path, count: int) -> dict[str, list[Row]]:
    """Give all that is asked, part by part."""
    return {
        **{f"ranked {seed}": ranked(data, seed, count=count) for seed in SEEDS},
        "ranked to choose": choosing(data),
        "ranked unseen": ranked(data, SEEDS[0], UNSEEN),
        **{f"retrieved {name}": retrieved(data, name) for name in RETRIEVED},
        **read(data),
    }


# Asking


def ask(
    parts: dict[str, list[Row]], system: Callable[[str, list[Any]], list[Told]], out: Path
) -> None:
    """Ask for every pair once, and store what is said after each hundred."""
    known: dict[str, Told] = json.loads(out.read_text()) if out.exists() else {}
    for part, asked in parts.items():
        kind = part.split()[0]
        wanted = {
            key(kind, row["question"], *passage): (row["question"], *passage)
            for row in asked
            for passage in row["passages"]
        }
        new = [k for k in wanted if k not in known]
        began = time.perf_counter()
        for at in range(0, len(new), 200):
            some = new[at : at + 200]
            known |= zip(some, system(kind, [wanted[k] for k in some]), strict=True)
            out.write_text(json.dumps(known))
        print(f"{part}: {len(new)} pairs in {time.perf_counter() - began:.0f} s", flush=True)


def key(kind: str, question: str, title: str, text: str) -> str:
    """Name a pair."""
    return hashlib.sha1("\x00".join((kind, question, title, text)).encode()).hexdigest()


def shipped() -> Callable[[str, list[Any]], list[Told]]:
    """Load the models that ship, each asked for what it is for."""
    from fitrag_integrations import Passage
    from fitrag_integrations.models import ExtractiveReader, OnePassScorer, RetrievalEvaluator

    scorer, reader = OnePassScorer.embedded(), ExtractiveReader.embedded()
    evaluator = RetrievalEvaluator.embedded()

    def labels(label: Any) -> Told:
        return {"has": label.has_answer_logit, "prefer": label.llm_prefer_logit}

    def said(kind: str, asked: list[Any]) -> list[Told]:
        pairs = [(q, Passage(str(i), text, title)) for i, (q, title, text) in enumerate(asked)]
        made: list[Told] = [{} for _ in pairs]
        if kind == "ranked":
            made = [labels(one) for one in scorer.score(pairs)]
        if kind == "retrieved":
            cut = [split_sentences(p.text) for _, p in pairs]
            items = [(q, p, spans) for (q, p), spans in zip(pairs, cut, strict=True)]
            for told, spans, (whole, own) in zip(
                made, cut, scorer.score_sentences(items), strict=True
            ):
                told |= labels(whole)
                each = zip(spans, own, strict=True)
                told["spans"] = [[*span, one.combine(0.5)] for span, one in each]
            for told, grade in zip(made, evaluator.evaluate(pairs), strict=True):
                told["grade"] = grade
        if kind.endswith("answerable"):
            for told, answer in zip(made, reader.read(pairs), strict=True):
                told |= {"answer": answer.text, "score": answer.score}
        return made

    return said


def student(folder: Path) -> Callable[[str, list[Any]], list[Told]]:
    """Load the student, a run or a graph; one pass says everything."""
    from quick import student as open_student

    model = open_student(folder)

    def said(kind: str, asked: list[Any]) -> list[Told]:
        return [
            {
                "has": j.has_answer,
                "prefer": j.llm_prefer,
                "grade": j.grade,
                "answer": j.answer,
                "score": j.answered,
                "span": j.span,
                "spans": [[*span, logit] for span, logit in j.sentences],
            }
            for j in model.judge(asked, split_sentences if kind == "retrieved" else None)
        ]

    return said


# Telling


def tabled(parts: dict[str, list[Row]], known: dict[str, Told]) -> Table:
    """Give every figure of one system, row by row, in parts that it was asked all of."""
    made: Table = {}
    for part, asked in parts.items():
        kind, _, name = part.partition(" ")
        names = [[key(kind, row["question"], *p) for p in row["passages"]] for row in asked]
        if not all(each in known for row in names for each in row):
            continue
        for row, own in zip(asked, names, strict=True):
            row["told"] = [known[each] for each in own]
        if kind == "ranked":
            made |= {f"{part}, {k}": v for k, v in ranking(asked).items()}
        if kind == "retrieved":
            made |= {f"{name}, {k}": v for k, v in listed(asked).items()}
        if kind == "answerable":
            f1s = [token_f1(row["told"][0]["answer"], row["answers"]) for row in asked]
            made["reader, F1"] = (f1s, None)
            scores = [row["told"][0]["score"] for row in asked]
        if kind == "unanswerable":
            other = [row["told"][0]["score"] for row in asked]
            made["trust, AUC"] = (scores + other, [1] * len(scores) + [0] * len(other))
            at = threshold(scores, f1s)
            made[f"abstained at {POINTS:g} of F1"] = ([float(s <= at) for s in other], None)
    return made


def ranking(asked: list[Row]) -> Table:
    """Give each question's reciprocal rank, BM25's, and the ceiling."""
    made: Table = {
        "BM25": ([reciprocal_rank(row["gold"]) for row in asked], None),
        "ceiling": ([float(any(row["gold"])) for row in asked], None),
    }
    for label in ("has", "prefer", "sum"):
        orders = [
            np.argsort([-_logit(told, label) for told in row["told"]], kind="stable")
            for row in asked
        ]
        ours = [
            reciprocal_rank([row["gold"][i] for i in order])
            for row, order in zip(asked, orders, strict=True)
        ]
        made[f"MRR by {label}"] = (ours, None)
        chances = [sigmoid(_logit(told, label)) for row in asked for told in row["told"]]
        gold = [g for row in asked for g in row["gold"]]
        closed = gap(ours, made)
        sets = [row["set"] for row in asked]
        worst = min(
            float(
                np.mean(
                    [o - b for o, b, s in zip(ours, made["BM25"][0], sets, strict=True) if s == n]
                )
            )
            for n in set(sets)
        )
        print(
            f"  by {label}: gap closed {closed:.2f}, worst set {worst:+.3f}, "
            f"ECE {calibration_error(chances, gold):.3f}"
        )
    return made


def _logit(told: Told, label: str) -> float:
    return float(told["has"] + told["prefer"] if label == "sum" else told[label])


def gap(ours: Sequence[float], made: Table) -> float:
    """Give the share of the gap between BM25 and the ceiling that is closed."""
    bm25, top = (float(np.mean(made[name][0])) for name in ("BM25", "ceiling"))
    return (float(np.mean(ours)) - bm25) / max(top - bm25, 1e-9)


def listed(asked: list[Row]) -> Table:
    """Give what lists of five are judged and compressed to."""
    truth = [int(any(row["gold"])) for row in asked]
    made: Table = {
        f"AUC of the best {label}": ([max(t[label] for t in r["told"]) for r in asked], truth)
        for label in ("grade", "has", "prefer")
    }
    pairs = [
        (sigmoid(t["has"]), g) for r in asked for t, g in zip(r["told"], r["gold"], strict=True)
    ]
    print(f"  ECE of has in lists {calibration_error(*map(list, zip(*pairs, strict=True))):.3f}")
    some = [row for row in asked if any(row["gold"])]
    for share in SHARES:
        chosen = [chosen_sentences(row, share) for row in some]
        kept = [
            float(any(contains_answer(text, row["answers"]) for text in texts))
            for row, (texts, _) in zip(some, chosen, strict=True)
        ]
        made[f"kept at {share:g} of the words"] = (kept, None)
        made[f"words used at {share:g}"] = ([part for _, part in chosen], None)
    return made


def chosen_sentences(row: Row, share: float) -> tuple[list[str], float]:
    """Take sentences, best first, while they fit; neighbours are shown as one, titles beside."""
    whole = sum(len(text.split()) for _, text in row["passages"])
    every = [(s[-1], i, s[0], s[1]) for i, told in enumerate(row["told"]) for s in told["spans"]]
    taken: dict[int, list[tuple[int, int]]] = {}
    words = 0
    for _, i, start, end in sorted(every, key=lambda one: -one[0]):
        count = len(row["passages"][i][1][start:end].split())
        if words and words + count > share * whole:
            break
        taken.setdefault(i, []).append((start, end))
        words += count
    shown = []
    for i, spans in taken.items():
        title, text = row["passages"][i]
        shown += [f"{title} {text[a:b]}" for a, b in joined(sorted(spans), text)]
    return shown, words / whole


def joined(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Join spans that only blanks are between."""
    made = [spans[0]]
    for start, end in spans[1:]:
        if not text[made[-1][1] : start].strip():
            made[-1] = (made[-1][0], end)
        else:
            made.append((start, end))
    return made


def threshold(scores: list[float], f1s: list[float]) -> float:
    """Give the score up to which abstaining costs at most `POINTS` of the F1."""
    lost, at = 0.0, -np.inf
    for score, f1 in sorted(zip(scores, f1s, strict=True)):
        lost += f1
        if lost > POINTS * len(scores):
            break
        at = score
    return at


def value(given: tuple[Any, Any]) -> float:
    """Give a figure: the mean of its rows, or their AUC; NaN for one class alone."""
    values, truth = given
    if truth is None:
        return float(np.mean(values))
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable") + 1.0
    held = np.asarray(truth, bool)
    yes, no = int(held.sum()), int((~held).sum())
    return float((order[held].sum() - yes * (yes + 1) / 2) / (yes * no)) if yes * no else np.nan


def apart(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[float, float]:
    """Give where 95 % of bootstrap samples put the difference on the same rows."""
    chance = np.random.default_rng(0)
    arrays = [(np.asarray(v, float), None if t is None else np.asarray(t)) for v, t in (one, other)]
    found = []
    for _ in range(1000):
        at = chance.integers(0, len(arrays[0][0]), len(arrays[0][0]))
        drawn = [value((v[at], None if t is None else t[at])) for v, t in arrays]
        found.append(drawn[1] - drawn[0])
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Ask or tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=("ask", "tell"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--parts", nargs="+", help="only these, such as answerable")
    parser.add_argument("--first", type=int, help="only so many rows of each part")
    parser.add_argument("--ranked", type=int, default=PER_SET, help="questions of a ranked set")
    args = parser.parse_args()
    parts = everything(args.data, args.ranked)
    parts = {name: parts[name][: args.first] for name in args.parts or parts}
    if args.what == "ask":
        ask(parts, student(args.model) if args.model else shipped(), args.files[-1])
        return
    tables = []
    for file in args.files:
        print(file.stem)
        tables.append(tabled(parts, json.loads(file.read_text())))
    first, second = tables[0], tables[-1]
    for name, given in second.items():
        line = f"{name}: {value(given):.3f} of {len(given[0])}"
        if name in first:
            low, high = apart(first[name], given)
            difference = value(given) - value(first[name])
            line += (
                f", shipped {value(first[name]):.3f}, {difference:+.3f} [{low:+.3f}, {high:+.3f}]"
            )
        print(line)


if __name__ == "__main__":
    main()
