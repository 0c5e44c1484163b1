"""Measure what ships and the student on the shared sets, as `measure/*.py` there do.

    python scripts/student/measure.py DATA ask shipped OUT.json
    python scripts/student/measure.py DATA ask student OUT.json --model FOLDER
    python scripts/student/measure.py DATA tell SHIPPED.json STUDENT.json

`ask` stores what a system says of every pair, `tell` makes the figures out of it: ranking of BM25's
top 20 (seeds 7 and 1, 60 questions a set), the reader's F1, the evaluator's actions, compression at
shares of the words, and abstention on questions that their passage does not answer. The sets are
looked at here only; nothing is fitted or chosen on them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

RANKED = ("nq_open_gold", "squad_dev", "hotpotqa", "popqa", "triviaqa")
RETRIEVED = ("nq", "popqa", "triviaqa")
SEEDS, PER_SET, UNANSWERED = (7, 1), 60, 400
SHARES = (0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
Row = dict[str, Any]
Told = dict[str, Any]  # one pair: has, prefer, grade, answer, score, spans[[start, end, logit]]


def rows(path: Path) -> list[Row]:
    """Read a gzipped file of JSON lines."""
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def sample(given: Iterable[Row], n: int, seed: int) -> list[Row]:
    """Draw as the shared scripts do."""
    drawn = list(given)
    random.Random(seed).shuffle(drawn)
    return drawn[:n] if n else drawn


def norm(text: str) -> str:
    """Lower case, no accents or punctuation, single blanks, a blank at both ends."""
    text = unicodedata.normalize("NFKD", text.lower())
    text = "".join(c for c in text if not unicodedata.combining(c))
    return " " + " ".join(re.sub(r"[^\w\s]", " ", text).split()) + " "


def holds(answers: Iterable[str], text: str) -> bool:
    """Say whether any answer stands in the text as whole tokens."""
    inside = norm(text)
    return any(norm(a).strip() and norm(a) in inside for a in answers)


def f1(prediction: str, answers: Iterable[str]) -> float:
    """Give the best token F1 over the answers, articles left out."""

    def tokens(text: str) -> list[str]:
        return re.sub(r"\b(a|an|the)\b", " ", norm(text)).split()

    best = 0.0
    for answer in answers:
        p, g = tokens(prediction), tokens(answer)
        common = sum(min(p.count(w), g.count(w)) for w in set(p))
        if common:
            best = max(best, 2 * common / (len(p) + len(g)))
        elif p == g:
            best = 1.0
    return best


def ranked(data: Path, seed: int) -> list[Row]:
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
        for name in RANKED
        for row in sample(by[name], PER_SET, seed)
    ]


def retrieved(data: Path, name: str) -> list[Row]:
    """Give a set of really retrieved lists of five."""
    return [
        {
            "set": name,
            "question": row["question"],
            "answers": row["answers"],
            "gold": [int(p["has_answer"]) for p in row["passages"]],
            "passages": [[p["title"] or "", p["text"]] for p in row["passages"]],
        }
        for row in rows(data / f"odqa_retrieved/{name}_top5.jsonl.gz")
    ]


def answerable(data: Path) -> list[Row]:
    """Give SQuAD dev questions with their paragraph."""
    return [
        {
            "id": row["id"],
            "question": row["question"],
            "answers": row["answers"],
            "passages": [[row["title"].replace("_", " "), row["context"]]],
        }
        for row in rows(data / "squad/squad_dev_xquad_en.jsonl.gz")
    ]


def unanswerable(data: Path) -> list[Row]:
    """Give SQuAD 2 dev questions that their paragraph does not answer."""
    every = [r for r in rows(data / "reading/unanswerable.jsonl.gz") if "squad" in r["source"]]
    return [
        {
            "question": row["question"],
            "answers": [],
            "passages": [
                [(row["passage"]["title"] or "").replace("_", " "), row["passage"]["text"]]
            ],
        }
        for row in sample(every, UNANSWERED, 7)
    ]


def everything(data: Path) -> dict[str, list[Row]]:
    """Give all that is asked, part by part."""
    return {
        **{f"ranked {seed}": ranked(data, seed) for seed in SEEDS},
        **{f"retrieved {name}": retrieved(data, name) for name in RETRIEVED},
        "answerable": answerable(data),
        "unanswerable": unanswerable(data),
    }


# Asking


def ask(
    parts: dict[str, list[Row]], system: Callable[[str, list[Any]], list[Told]], out: Path
) -> None:
    """Ask for every pair once, and store what is said after each part."""
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
        for at in range(0, len(new), 100):
            some = new[at : at + 100]
            known |= zip(some, system(kind, [wanted[k] for k in some]), strict=True)
            out.write_text(json.dumps(known))
        took = time.perf_counter() - began
        print(f"{part}: {len(new)} pairs in {took:.0f} s", flush=True)
        out.write_text(json.dumps(known))


def key(kind: str, question: str, title: str, text: str) -> str:
    """Name a pair."""
    import hashlib

    return hashlib.sha1("\x00".join((kind, question, title, text)).encode()).hexdigest()


def shipped() -> Callable[[str, list[Any]], list[Told]]:
    """Load the models that ship, each asked for what it is for."""
    from fitrag_integrations import Passage
    from fitrag_integrations.models import ExtractiveReader, OnePassScorer, RetrievalEvaluator
    from fitrag_integrations.text.sentences import split_sentences

    scorer, reader = OnePassScorer.embedded(), ExtractiveReader.embedded()
    evaluator = RetrievalEvaluator.embedded()

    def labels(label: Any) -> Told:
        return {"has": label.has_answer_logit, "prefer": label.llm_prefer_logit}

    def said(kind: str, asked: list[Any]) -> list[Told]:
        pairs = [(q, Passage(str(i), text, title)) for i, (q, title, text) in enumerate(asked)]
        made: list[Told] = [{} for _ in pairs]
        if kind == "ranked":
            made = [labels(one) for one in scorer.score(pairs)]
        if kind in ("retrieved",):
            cut = [split_sentences(p.text) for _, p in pairs]
            items = [(q, p, spans) for (q, p), spans in zip(pairs, cut, strict=True)]
            for told, spans, (whole, own) in zip(
                made, cut, scorer.score_sentences(items), strict=True
            ):
                told |= labels(whole)
                told["spans"] = [
                    [*span, (one.has_answer_logit + one.llm_prefer_logit) / 2, one.combine(0.5)]
                    for span, one in zip(spans, own, strict=True)
                ]
            for told, grade in zip(made, evaluator.evaluate(pairs), strict=True):
                told["grade"] = grade
        if kind.endswith("answerable"):
            for told, answer in zip(made, reader.read(pairs), strict=True):
                told |= {"answer": answer.text, "score": answer.score}
        return made

    return said


def student(folder: Path) -> Callable[[str, list[Any]], list[Told]]:
    """Load the student's graph; one pass says everything."""
    from quick import student as open_student

    from fitrag_integrations.text.sentences import split_sentences

    model = open_student(folder)

    def said(kind: str, asked: list[Any]) -> list[Told]:
        return [
            {
                "has": j.has_answer,
                "prefer": j.llm_prefer,
                "grade": j.grade,
                "answer": j.answer,
                "score": j.score,
                "sure": j.answered,
                "span": j.span,
                "spans": [[*span, logit, logit] for span, logit in j.sentences],
            }
            for j in model.judge(asked, split_sentences if kind == "retrieved" else None)
        ]

    return said


# Telling


def tell(parts: dict[str, list[Row]], known: dict[str, Told], model: Any = None) -> Row:
    """Make all figures of one system that it was asked for."""
    found: Row = {}
    there = {}
    for part, asked in parts.items():
        kind = part.split()[0]
        try:
            for row in asked:
                row["told"] = [known[key(kind, row["question"], *p)] for p in row["passages"]]
        except KeyError:
            continue
        there[part] = asked
        if kind == "ranked":
            for label in ("has", "prefer", "sum"):
                found[f"{part} {label}"] = ranking(asked, label)
        if kind == "retrieved":
            found[f"{part} AUC of the best"] = {
                label: best_grade(asked, label) for label in ("grade", "has", "prefer")
            }
            found[f"{part} kept"] = compression(asked)
            if model is not None:
                found[f"{part} verdict"] = verdicts(asked, model)
    if "answerable" in there:
        found["reader"] = reading(there["answerable"])
    if {"answerable", "unanswerable"} <= there.keys():
        found["abstention"] = abstention(there["answerable"], there["unanswerable"])
    return found


def verdicts(asked: list[Row], model: Any) -> Row:
    """Give AUC and gain of the list's verdict, and of the best grade by its own thresholds."""
    from reference import Judged

    lists = [
        [
            Judged(t["has"], t["prefer"], t["grade"], t["sure"], t["span"], t["answer"], 0, 0)
            for t in row["told"]
        ]
        for row in asked
    ]
    truth = [any(row["gold"]) for row in asked]
    majority = max(fmean(truth), 1 - fmean(truth))
    own = model.fitted["best_grade"]
    best = [max(j.grade for j in some) for some in lists]
    simple = [
        "correct" if g >= own["upper"] else "incorrect" if g < own["lower"] else "ambiguous"
        for g in best
    ]
    made: Row = {"AUC": auc([model.verdict(some) for some in lists], truth)}
    for name, actions in (("list", [model.action(some) for some in lists]), ("best", simple)):
        sure = [
            (a == "correct") == t for a, t in zip(actions, truth, strict=True) if a != "ambiguous"
        ]
        made[f"{name} gain where sure"] = fmean(sure) - majority if sure else None
        made[f"{name} ambiguous"] = 1 - len(sure) / len(actions)
    return made


def value(told: Told, label: str) -> float:
    """Give a pair's score."""
    if label == "sum":
        return sigmoid(told["has"]) + sigmoid(told["prefer"])
    return float(told[label])


def ranking(asked: list[Row], label: str) -> Row:
    """Give MRR beside BM25's and the ceiling, the gap closed, and the calibration error."""
    sets, pairs = {}, []
    for name in RANKED:
        ours, bm25, top = [], [], []
        for row in (row for row in asked if row["set"] == name):
            scores = [value(told, label) for told in row["told"]]
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            ours.append(mrr(row["gold"][i] for i in order))
            bm25.append(mrr(row["gold"]))
            top.append(float(any(row["gold"])))
            if label != "sum":
                pairs += [(sigmoid(s), g) for s, g in zip(scores, row["gold"], strict=True)]
        sets[name] = [fmean(ours), fmean(bm25), fmean(top)]
    ours, bm25, top = (fmean(s[i] for s in sets.values()) for i in range(3))
    return {
        "sets": sets,
        "gap closed": (ours - bm25) / (top - bm25),
        "worst": min(s[0] - s[1] for s in sets.values()),
        "ece": ece(pairs) if pairs else None,
    }


def reading(asked: list[Row]) -> Row:
    """Give the reader's F1, on 60 questions by two seeds and on all."""
    f1s = {id(row): f1(row["told"][0]["answer"], row["answers"]) for row in asked}
    parts = {f"seed {s}": sample(asked, PER_SET, s) for s in SEEDS} | {"all": asked}
    return {name: fmean(f1s[id(row)] for row in some) for name, some in parts.items()}


def best_grade(asked: list[Row], label: str) -> float:
    """Give the AUC of the best grade for whether any passage holds an answer."""
    truth = [any(row["gold"]) for row in asked]
    return auc([max(t[label] for t in row["told"]) for row in asked], truth)


def compression(asked: list[Row]) -> Row:
    """Give answers kept and words kept for the best sentences within shares of the words."""
    made = {}
    for share in SHARES:
        kept, words = [], []
        for row in (row for row in asked if any(row["gold"])):
            chosen, part = chosen_sentences(row, share)
            kept.append(float(any(holds(row["answers"], text) for text in chosen)))
            words.append(part)
        made[str(share)] = [fmean(kept), fmean(words)]
    return made


def chosen_sentences(row: Row, share: float) -> tuple[list[str], float]:
    """Take sentences, best first, while they fit; neighbours are shown as one, titles beside."""
    whole = sum(len(text.split()) for _, text in row["passages"])
    every = [(s[3], i, s[0], s[1]) for i, told in enumerate(row["told"]) for s in told["spans"]]
    every.sort(key=lambda one: -one[0])
    taken: dict[int, list[tuple[int, int]]] = {}
    words = 0
    for _, i, start, end in every:
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


def abstention(asked: list[Row], unasked: list[Row]) -> Row:
    """Give the share of unanswerable questions abstained at costs to the F1 of the others."""
    score = "sure" if "sure" in asked[0]["told"][0] else "score"
    sure = sorted((r["told"][0][score], f1(r["told"][0]["answer"], r["answers"])) for r in asked)
    other = [r["told"][0][score] for r in unasked]
    whole = sum(f for _, f in sure)
    made: Row = {
        "AUC": auc([s for s, _ in sure] + other, [True] * len(sure) + [False] * len(other))
    }
    for points in (1, 2, 5):
        lost, at = 0.0, -math.inf
        for s, f in sure:
            lost += f
            if lost > points / 100 * len(sure):
                break
            at = s
        made[f"abstained at {points} points"] = fmean(o <= at for o in other)
    made["F1 of the answerable"] = whole / len(sure)
    return made


def mrr(flags: Iterable[Any]) -> float:
    """Give one over the place of the first that holds."""
    return next((1 / (i + 1) for i, f in enumerate(flags) if f), 0.0)


def ece(pairs: Sequence[tuple[float, int]]) -> float:
    """Give the calibration error in ten bins."""
    bins: list[list[float]] = [[] for _ in range(10)]
    for p, label in pairs:
        bins[min(9, int(p * 10))].append(p - label)
    return sum(abs(sum(b)) for b in bins) / len(pairs)


def auc(scores: Sequence[float], truth: Sequence[bool]) -> float:
    """Give the chance that a true one is above a false one."""
    pos = [s for s, t in zip(scores, truth, strict=True) if t]
    neg = [s for s, t in zip(scores, truth, strict=True) if not t]
    return fmean((p > n) + 0.5 * (p == n) for p in pos for n in neg)


def sigmoid(x: float) -> float:
    """Bring a logit to a probability."""
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, x))))


def main() -> None:
    """Ask or tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=("ask", "tell"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--parts", nargs="+", help="only these, such as answerable")
    parser.add_argument("--first", type=int, help="only so many rows of each part")
    args = parser.parse_args()
    if args.what == "ask":
        system = student(args.model) if args.model else shipped()
        parts = everything(args.data)
        chosen = {name: parts[name][: args.first] for name in args.parts or parts}
        ask(chosen, system, args.files[0])
        return
    model = None
    if args.model:
        from quick import student as open_student

        model = open_student(args.model)
    for file in args.files:
        parts = {name: some[: args.first] for name, some in everything(args.data).items()}
        made = tell(parts, json.loads(file.read_text()), model)
        print(file.stem, json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
