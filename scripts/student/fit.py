"""Choose how much of a run's change is kept, and fit what comes after the heads.

    python scripts/student/fit.py RUN ROWS OUT [--parts 0.5 0.7 1.0] [--docs FILE]

The encoder between its start and the run's end is looked at on ROWS/held.jsonl for each part
(Wortsman et al., 2022); the best by the mean of its figures there is OUT/student.safetensors.
OUT/fitted.json gets a slope and a shift of each label, the line that says whether an answer is to
be trusted, the line over a sentence's numbers, and where the actions part, fitted on
ROWS/held.jsonl and ROWS/lists.jsonl, questions that nothing was trained on. None of the sets
that measure is read. Prints cross-validated figures.

With --docs LISTS/held.jsonl, for a run on both kinds of rows that began from what ships, heads
move with the encoder, and all lines stay what ships but two: that of trust, and that of
`has_answer`, over whole lists of documentation (the projects that `kinds.py` chooses by), whole
lists of Wikipedia and lists of five, each kind with the same weight.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kinds import chooses  # noqa: E402
from model import averaged, keep, shipped_lines  # noqa: E402
from quick import Quick  # noqa: E402
from reference import LABELS, Judged, sentence_numbers  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer, token_f1  # noqa: E402
from fitrag_integrations.evaluation.outcomes import calibration_error  # noqa: E402
from fitrag_integrations.evaluation.ranking import reciprocal_rank
from fitrag_integrations.text.sentences import split_sentences

SURE, COST = 0.9, 0.02
CLIP = 20.0
TOGETHER = 30  # items
DOCUMENTS, FIVES = 30, 100  # lists that has_answer is fitted on


def main() -> None:
    """Look at each part, keep the best, fit, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", type=float, nargs="+", default=[0.5, 0.7, 1.0])
    parser.add_argument("--other", type=Path, help="another run, to be averaged with it first")
    parser.add_argument("--docs", type=Path, help="lists of documentation that were held out")
    parser.add_argument("--lists", type=int, default=900)
    parser.add_argument("--ranks", type=int, default=150, help="lists that the part is chosen by")
    args = parser.parse_args()
    held = [*map(json.loads, (args.rows / "held.jsonl").open())]
    lists = [*map(json.loads, (args.rows / "lists.jsonl").open())][: args.lists]
    some = [i for i in held if i["kind"] == "rank"][: args.ranks]
    some += [i for i in held if i["kind"] != "rank"]
    run = args.run
    if args.other is not None:
        run = averaged(run, args.other, args.out / "averaged")
    for part in args.parts:
        if not (args.out / f"kept-{part:g}" / "student.safetensors").exists():
            keep(run, args.out / f"kept-{part:g}", part, heads=bool(args.docs))
    looked = {part: look(args.out / f"kept-{part:g}", part, some) for part in args.parts}
    best = max(looked, key=lambda part: looked[part])
    print(f"kept: {best:g}", flush=True)
    chosen = args.out / f"kept-{best:g}"
    for name in ("student.safetensors", "student.json"):
        shutil.copyfile(chosen / name, args.out / name)
    cache = Cache(chosen)
    if args.docs:
        fitted = fit_both(cache, some, lists[:FIVES], args.docs)
    else:
        fitted = fit_all(cache, held, lists)
    (args.out / "fitted.json").write_text(json.dumps(fitted, indent=1) + "\n")


def fit_all(cache: Cache, held: list[Any], lists: list[Any]) -> dict[str, Any]:
    """Return every line, fitted on Wikipedia."""
    cache.ask(lists + held)
    fitted: dict[str, Any] = {"labels": {}}
    some = [(item, judge(cache, item)) for item in lists]
    read = [(item, judge(cache, item)) for item in held]
    fit_labels(fitted, [(i, j) for i, j in read if i["kind"] == "rank"], some)
    for _, judged in some + read:
        for one in judged:
            relabel(one, fitted)
    fit_answered(fitted, read, some)
    fit_sentences(fitted, some)
    fit_actions(fitted, some)
    return fitted


def fit_both(cache: Cache, held: list[Any], lists: list[Any], docs: Path) -> dict[str, Any]:
    """Return the lines that ship, `has_answer` and trust fitted anew."""
    documents = [row for row in map(json.loads, docs.open()) if chooses(row["set"])]
    documents = random.Random(5).sample(documents, DOCUMENTS)
    cache.ask(documents + held + lists)
    x, y, weights = list[float](), list[int](), list[float]()
    for some in (documents, [i for i in held if i["kind"] == "rank"], lists):
        x += [one["judged"].has_answer for item in some for one in judge(cache, item)]
        y += [int(p["has"]) for item in some for p in item["passages"]]
        weights += [1e4 / (len(y) - len(weights))] * (len(y) - len(weights))
    fit = LogisticRegression(C=1e6).fit(np.array(x)[:, None], y, sample_weight=weights)
    slope, shift = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    print(f"has_answer: slope {slope:.3f}, shift {shift:.3f}, on {len(y)} pairs")
    fitted = shipped_lines()
    fitted["labels"]["has_answer"] = [slope, shift]
    fitted["sentence"][-1] -= fitted["sentence"][4] * shift / slope  # it keeps what it adds up to
    fitted["sentence"][4] /= slope
    read = [(item, judge(cache, item)) for item in held]
    for _, judged in read:
        for one in judged:
            relabel(one, fitted)
    fit_answered(fitted, read, [])
    return fitted


def look(folder: Path, part: float, held: list[dict[str, Any]]) -> float:
    """Tell of the held-out rows. Gives the mean of its figures."""
    cache = Cache(folder)
    cache.ask(held)
    rows = [(item, judge(cache, item)) for item in held]
    print(f"part {part:g}", end=": ")
    return (tell_ranks([(i, j) for i, j in rows if i["kind"] == "rank"]) + tell_reads(rows)) / 2


class Cache:
    """Ask the student of each item once, also over several runs of this script."""

    def __init__(self, folder: Path) -> None:
        self.student, self.file = Quick(folder), folder / "asked.safetensors"
        self.student.fitted = {"labels": {name: [1.0, 0.0] for name in LABELS}}
        self.known: dict[str, list[list[Any]]] = {}
        for key, tensor in (load_file(self.file) if self.file.exists() else {}).items():
            name, at, _ = key.split()  # outputs lie in order: what is saved is sorted by its name
            chunks = self.known.setdefault(name, [])
            chunks.extend([] for _ in range(int(at) + 1 - len(chunks)))
            chunks[int(at)].append(tensor)

    def ask(self, items: list[dict[str, Any]]) -> None:
        """Ask what is not known of some items, many at once: small batches cost twice as much."""
        new = [item for item in items if name_of(item) not in self.known]
        for at in range(0, len(new), TOGETHER):
            some = new[at : at + TOGETHER]
            groups = [[c for g in self.student.encode(triples_of(i)) for c in g] for i in some]
            found = iter(self.student.run([chunk for group in groups for chunk in group]))
            for item, group in zip(some, groups, strict=True):
                each = [next(found) for _ in group]
                self.known[name_of(item)] = [[torch.from_numpy(x.copy()) for x in o] for o in each]
        if new:
            save_file(
                {
                    f"{name} {at} {part}": tensor
                    for name, chunks in self.known.items()
                    for at, outputs in enumerate(chunks)
                    for part, tensor in enumerate(outputs)
                },
                self.file,
            )

    def told(self, item: dict[str, Any]) -> list[Any]:
        """Give the student's output of an item's chunks."""
        return [(labels.numpy(), tokens.numpy()) for labels, tokens in self.known[name_of(item)]]


def triples_of(item: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Give an item's pairs."""
    return [(item["question"], p["title"], p["text"]) for p in item["passages"]]


def name_of(item: dict[str, Any]) -> str:
    """Name an item by its pairs."""
    return hashlib.sha256(json.dumps(triples_of(item)).encode()).hexdigest()


def judge(cache: Cache, item: dict[str, Any]) -> list[dict[str, Any]]:
    """Keep all that the graph says of an item's passages."""
    student = cache.student
    triples = triples_of(item)
    groups = [*student.encode(triples)]
    found = iter(cache.told(item))
    made = []
    for (_, _, text), group in zip(triples, groups, strict=True):
        raw = [next(found) for _ in group]
        one = student._judged(text, group, raw, None)
        made.append(
            {
                "judged": one,
                "chunk": group[0],
                "tokens": raw[0][1],
                "labels": raw[0][0],
                "long": len(group) > 1,
            }
        )
    return made


def relabel(one: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Apply the fitted slopes to what was judged without any."""
    lines = fitted["labels"]
    j = one["judged"]
    raw = [
        j.has_answer,
        j.llm_prefer,
        2 * np.arctanh(np.clip(j.grade, -0.9999999, 0.9999999)),
        j.answered,
    ]
    values = [lines[n][0] * x + lines[n][1] for n, x in zip(LABELS, raw, strict=True)]
    one["logits"] = np.array(
        [lines[n][0] * float(x) + lines[n][1] for n, x in zip(LABELS, one["labels"], strict=True)]
    )
    one["judged"] = Judged(
        values[0],
        values[1],
        float(np.tanh(values[2] / 2)),
        values[3],
        j.span,
        j.answer,
        j.start,
        j.end,
    )


def line(x: Any, y: Any) -> list[float]:
    """Fit slope and shift."""
    fit = LogisticRegression(C=1e6).fit(np.asarray(x).reshape(-1, 1), y)
    return [float(fit.coef_[0, 0]), float(fit.intercept_[0])]


def right(item: dict[str, Any], passage: dict[str, Any], one: dict[str, Any]) -> int:
    """Say whether the reader's answer is right."""
    return int(bool(passage["has"]) and contains_answer(one["judged"].answer, item["answers"]))


def tell_ranks(ranks: list[Any]) -> float:
    """Tell the order of the held-out lists. Gives the mean MRR of the first two labels."""
    made = []
    for name in ("has_answer", "llm_prefer", "grade"):
        scored = ((i["passages"], [getattr(o["judged"], name) for o in j]) for i, j in ranks)
        made.append(np.mean([reciprocal_rank(ordered(*one)) for one in scored]))
        print(f"MRR by {name} {made[-1]:.4f}", end=", ")
    given = np.mean([reciprocal_rank([p["has"] for p in i["passages"]]) for i, _ in ranks])
    print(f"BM25's {given:.4f} of {len(ranks)}", end="; ")
    return float(np.mean(made[:2]))


def tell_reads(rows: list[Any]) -> float:
    """Tell how well is read, and how well the unanswerable are told. Gives the mean of both."""
    read = [
        (i, p, o["judged"])
        for i, j in rows
        if i["kind"] != "rank"
        for p, o in zip(i["passages"], j, strict=True)
    ]
    f1s = [max(token_f1(j.answer, [a]) for a in i["answers"]) for i, p, j in read if p["right"]]
    right = [int(p["right"]) for _, p, _ in read]
    told = {
        n: float(roc_auc_score(right, [getattr(j, n) for *_, j in read]))
        for n in ("has_answer", "grade", "answered", "span")
    }
    shown = {name: round(value, 4) for name, value in told.items()}
    print(f"F1 {np.mean(f1s):.4f} of {len(f1s)}, AUC of right {shown}", flush=True)
    return float(np.mean(f1s) + told["answered"]) / 2


def ordered(passages: list[Any], scores: list[float]) -> list[int]:
    """Give what passages hold, the best scored first."""
    return [passages[i]["has"] for i in sorted(range(len(scores)), key=lambda i: -scores[i])]


def fit_labels(fitted: dict[str, Any], ranks: list[Any], lists: list[Any]) -> None:
    """Fit each label's slope and shift: on whole lists, the grade on lists as retrieved."""
    for name in LABELS:
        rows = lists if name == "grade" else ranks
        x, y = [], []
        for item, judged in rows:
            for passage, one in zip(item["passages"], judged, strict=True):
                value = getattr(one["judged"], name)
                x.append(
                    2 * np.arctanh(np.clip(value, -0.9999999, 0.9999999))
                    if name == "grade"
                    else value
                )
                y.append(
                    passage["has"] if name in ("has_answer", "grade") else right(item, passage, one)
                )
        fitted["labels"][name] = line(x, y)
        slope, shift = fitted["labels"][name]
        chances = 1 / (1 + np.exp(-(slope * np.array(x) + shift)))
        print(
            f"{name}: AUC {roc_auc_score(y, x):.4f}, "
            f"ECE {calibration_error(chances.tolist(), y):.4f}, slope {slope:.3f}, "
            f"shift {shift:.3f}",
            flush=True,
        )


def fit_answered(fitted: dict[str, Any], held: list[Any], lists: list[Any]) -> None:
    """Fit when an answer is to be trusted: read, near and twisted questions, and lists."""
    x, y, f1s, kinds = [], [], [], []
    for item, judged in held:
        if item["kind"] == "rank":
            continue
        for passage, one in zip(item["passages"], judged, strict=True):
            x.append(trust(one["judged"]))
            y.append(int(passage["right"]))
            kinds.append("no" if not passage["right"] else "yes")
            f1s.append(
                max(token_f1(one["judged"].answer, [a]) for a in item["answers"])
                if passage["right"]
                else 0.0
            )
    data, want = np.array(x), np.array(y)
    fit = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, class_weight="balanced"))
    guessed = cross_val_predict(fit, data, want, cv=5, method="predict_proba")[:, 1]
    read = np.array([k == "yes" for k in kinds])
    print(
        f"read: F1 {np.array(f1s)[read].mean():.4f}; "
        f"trust: AUC {roc_auc_score(want, guessed):.4f}, "
        f"of answered alone {roc_auc_score(want, data[:, 3]):.4f}, "
        f"of the span {roc_auc_score(want, data[:, 4]):.4f}"
    )
    fit.fit(data, want)
    scaler, model = fit[0], fit[1]
    weights = model.coef_[0] / scaler.scale_
    bias = float(model.intercept_[0] - (model.coef_[0] * scaler.mean_ / scaler.scale_).sum())
    fitted["answered"] = [*weights.tolist(), bias]
    chances = fit.predict_proba(data)[:, 1]
    order = np.argsort(chances[read])
    lost = np.cumsum(np.array(f1s)[read][order]) / read.sum()
    at = int((lost <= COST).sum())
    fitted["abstain_below"] = float(np.sort(chances[read])[at])
    print(
        f"abstaining below {fitted['abstain_below']:.3f}: "
        f"{np.mean(chances[~read] < fitted['abstain_below']):.3f} "
        f"of {int((~read).sum())} without an answer",
        flush=True,
    )
    for rows in (held, lists):
        for _, judged in rows:
            for one in judged:
                j = one["judged"]
                one["judged"] = Judged(
                    j.has_answer,
                    j.llm_prefer,
                    j.grade,
                    float(np.dot(fitted["answered"][:-1], trust(j)) + bias),
                    j.span,
                    j.answer,
                    j.start,
                    j.end,
                )


def trust(j: Judged) -> list[float]:
    """Give the numbers that trust is fitted over."""
    grade = 2 * np.arctanh(np.clip(j.grade, -0.9999999, 0.9999999))
    return [
        j.has_answer,
        j.llm_prefer,
        float(grade),
        j.answered,
        float(np.clip(j.span, -CLIP, CLIP)) / 2,
    ]


def fit_sentences(fitted: dict[str, Any], lists: list[Any]) -> None:
    """Fit which sentence of a list holds the answer."""
    x, y = [], []
    for item, judged in lists:
        if not any(p["has"] for p in item["passages"]):
            continue
        for passage, one in zip(item["passages"], judged, strict=True):
            if one["long"]:
                continue
            for span in split_sentences(passage["text"]):
                numbers = sentence_numbers(one["chunk"], one["tokens"], one["logits"], span)
                if numbers is not None:
                    shown = passage["text"][span[0] : span[1]]
                    x.append(numbers[1])
                    y.append(int(contains_answer(shown, item["answers"])))
    fit = make_pipeline(StandardScaler(), LogisticRegression(C=1.0))
    guessed = cross_val_predict(fit, np.array(x), y, cv=5, method="predict_proba")[:, 1]
    fit.fit(np.array(x), y)
    weights = fit[1].coef_[0] / fit[0].scale_
    bias = float(fit[1].intercept_[0] - (fit[1].coef_[0] * fit[0].mean_ / fit[0].scale_).sum())
    fitted["sentence"] = [*weights.tolist(), bias]
    print(
        f"sentences: {len(y)}, AUC {roc_auc_score(y, guessed):.4f}; "
        f"weights {np.round(fit[1].coef_[0], 2).tolist()}",
        flush=True,
    )


def fit_actions(fitted: dict[str, Any], lists: list[Any]) -> None:
    """Fit where the actions part, by the best grade of a list."""
    y = np.array([int(any(p["has"] for p in item["passages"])) for item, _ in lists])
    best = np.array([max(o["judged"].grade for o in judged) for _, judged in lists])
    upper, lower = thresholds(best, y)
    fitted["best_grade"] = {"upper": upper, "lower": lower}
    print(
        f"best grade on {len(y)} lists ({y.mean():.2f} hold): "
        f"AUC {roc_auc_score(y, best):.4f}; upper {upper:.3f}, lower {lower:.3f}",
        flush=True,
    )


def thresholds(values: Any, y: Any) -> tuple[float, float]:
    """Give the lowest from which 90 % hold, and the highest below which 90 % do not.

    As if half of all lists held an answer.
    """
    weights = np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean()))

    def holding(some: Any) -> float:
        return float((weights * y)[some].sum() / weights[some].sum())

    ordered = np.sort(values)
    ups = [v for v in ordered if (values >= v).sum() >= 20 and holding(values >= v) >= SURE]
    lows = [v for v in ordered if (values < v).sum() >= 20 and holding(values < v) <= 1 - SURE]
    upper = float(min(ups, default=ordered[-1]))
    return upper, min(upper, float(max(lows, default=ordered[0])))


if __name__ == "__main__":
    main()
