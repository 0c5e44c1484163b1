"""Fit what comes after the graph, on questions that the student was not trained on.

    python scripts/student/fit.py GRAPH_FOLDER ROWS RUN

Writes RUN/fitted.json, which `export.py` puts beside the graph: a slope and a shift of each label,
the line that says whether an answer is to be trusted, the line over a sentence's numbers, and the
list's verdict with its thresholds. ROWS/held.jsonl and ROWS/lists.jsonl are our own; none of the
sets that measure is read. Prints cross-validated figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent))
from reference import LABELS, Judged, Student, sentence_numbers, verdict_numbers  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer, token_f1  # noqa: E402
from fitrag_integrations.evaluation.outcomes import calibration_error  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences

CORRECT, INCORRECT, COST = 0.85, 0.8, 0.02
CLIP = 20.0
TOGETHER = 30  # items


def main() -> None:
    """Run the graph over all rows, fit, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lists", type=int, default=900)
    parser.add_argument(
        "--ranks", type=int, default=None, help="held-out lists; 0 calibrates on ROWS/lists"
    )
    parser.add_argument(
        "--look", action="store_true", help="tell of the held-out rows, fit nothing"
    )
    args = parser.parse_args()
    student = Student(args.graph)
    student.fitted = {"labels": {name: [1.0, 0.0] for name in LABELS}}
    held = [*map(json.loads, (args.rows / "held.jsonl").open())]
    lists = [*map(json.loads, (args.rows / "lists.jsonl").open())][: args.lists]
    whole = [i for i in held if i["kind"] == "rank"][: args.ranks]
    held = [*whole, *(i for i in held if i["kind"] != "rank")]
    cache = Cache(student, args.graph / "asked.npz")
    fitted: dict[str, Any] = {"labels": {}}
    lists = [] if args.look else lists
    cache.ask([*lists, *held])
    told = [judge(cache, item) for item in lists]
    judged = [judge(cache, item) for item in held]
    ranks = [(i, j) for i, j in zip(held, judged, strict=True) if i["kind"] == "rank"]
    if ranks:
        tell_ranks(ranks)
    if args.look:
        tell_reads([*zip(held, judged, strict=True)])
        return
    some = [*zip(lists, told, strict=True)]
    fit_labels(fitted, ranks or some, some)
    student.fitted = fitted
    for rows in (judged, told):
        for row in rows:
            for one in row:
                relabel(one, fitted)
    fit_answered(fitted, [*zip(held, judged, strict=True)], [*zip(lists, told, strict=True)])
    fit_sentences(fitted, [*zip(lists, told, strict=True)])
    fit_verdict(fitted, [*zip(lists, told, strict=True)])
    (args.run / "fitted.json").write_text(json.dumps(fitted, indent=1) + "\n")


class Cache:
    """Ask the graph of each item once, also over several runs of this script."""

    def __init__(self, student: Student, file: Path) -> None:
        self.student, self.file = student, file
        self.known: dict[str, Any] = {}
        if file.exists():
            with np.load(file) as kept:
                for n, name in enumerate(kept["names"].tolist()):
                    count = sum(f"{n}.{j}.labels" in kept.files for j in range(64))
                    each = [
                        (kept[f"{n}.{j}.labels"], kept[f"{n}.{j}.tokens"]) for j in range(count)
                    ]
                    self.known[name] = each

    def ask(self, items: list[dict[str, Any]]) -> None:
        """Ask what is not known of some items, many at once: small batches cost twice as much."""
        new = [item for item in items if name_of(item) not in self.known]
        for at in range(0, len(new), TOGETHER):
            some = new[at : at + TOGETHER]
            groups = [[c for g in self.student.encode(triples_of(i)) for c in g] for i in some]
            found = iter(self.student.run([chunk for group in groups for chunk in group]))
            for item, group in zip(some, groups, strict=True):
                each = (next(found) for _ in group)
                self.known[name_of(item)] = [(a, b.astype(np.float16)) for a, b in each]
            self.store()
            print(
                f"{min(at + TOGETHER, len(new))} of {len(new)} asked", file=sys.stderr, flush=True
            )

    def told(self, item: dict[str, Any]) -> list[Any]:
        """Give the graph's output of an item's chunks."""
        return [(labels, tokens.astype(np.float32)) for labels, tokens in self.known[name_of(item)]]

    def store(self) -> None:
        """Write what is known, under another name first."""
        fresh = self.file.with_suffix(".new.npz")
        arrays = {
            f"{n}.{j}.{part}": array
            for n, each in enumerate(self.known.values())
            for j, both in enumerate(each)
            for part, array in zip(("labels", "tokens"), both, strict=True)
        }
        np.savez(fresh, names=np.array(list(self.known)), **arrays)
        fresh.replace(self.file)


def triples_of(item: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Give an item's pairs."""
    return [(item["question"], p["title"], p["text"]) for p in item["passages"]]


def name_of(item: dict[str, Any]) -> str:
    """Name an item by its pairs."""
    return json.dumps(triples_of(item))


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


def tell_ranks(ranks: list[Any]) -> None:
    """Tell the order of the held-out lists, which come in BM25's."""
    for name in ("has_answer", "llm_prefer", "grade"):
        ours = [
            mrr([p["has"] for p in by(i["passages"], [getattr(o["judged"], name) for o in j])])
            for i, j in ranks
        ]
        print(f"held lists, MRR by {name}: {np.mean(ours):.4f}", end="; ")
    given = np.mean([mrr([p["has"] for p in i["passages"]]) for i, _ in ranks])
    print(
        f"BM25 {given:.4f} over {len(ranks)}",
        flush=True,
    )


def tell_reads(rows: list[Any]) -> None:
    """Tell how well is read, and how well the unanswerable are told."""
    read = [
        (i, p, o["judged"])
        for i, j in rows
        if i["kind"] != "rank"
        for p, o in zip(i["passages"], j, strict=True)
    ]
    f1s = [max(token_f1(j.answer, [a]) for a in i["answers"]) for i, p, j in read if p["right"]]
    exact = [f1 for f1 in f1s if f1 == 1]
    right = [int(p["right"]) for _, p, _ in read]
    told = {
        n: roc_auc_score(right, [getattr(j, n) for *_, j in read])
        for n in ("has_answer", "grade", "answered", "span")
    }
    pairs = [
        (p["has"], o["judged"])
        for i, j in rows
        if i["kind"] == "rank"
        for p, o in zip(i["passages"], j, strict=True)
    ]
    shown = {name: round(value, 4) for name, value in told.items()}
    auc = roc_auc_score([h for h, _ in pairs], [j.has_answer for _, j in pairs])
    print(
        f"F1 {np.mean(f1s):.4f}, exact {len(exact) / len(f1s):.3f} of {len(f1s)}; "
        f"AUC of right {shown}; of has over pairs {auc:.4f}"
    )


def by(passages: list[Any], scores: list[float]) -> list[Any]:
    """Order passages by score."""
    return [passages[i] for i in sorted(range(len(scores)), key=lambda i: -scores[i])]


def mrr(flags: list[Any]) -> float:
    """Give one over the place of the first."""
    return next((1 / (i + 1) for i, f in enumerate(flags) if f), 0.0)


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


def fit_verdict(fitted: dict[str, Any], lists: list[Any]) -> None:
    """Fit whether any passage of a list holds the answer, and where the actions part."""
    x = np.array([verdict_numbers([o["judged"] for o in judged]) for _, judged in lists])
    y = np.array([int(any(p["has"] for p in item["passages"])) for item, _ in lists])
    best = np.array([max(o["judged"].grade for o in judged) for _, judged in lists])
    scaler = StandardScaler().fit(x)
    alike = scaler.transform(x)
    strengths = (0.003, 0.01, 0.03, 0.1, 0.3)
    search = LogisticRegressionCV(
        Cs=strengths, cv=5, scoring="neg_log_loss", use_legacy_attributes=False, l1_ratios=(0.0,)
    ).fit(alike, y)
    strength = float(np.ravel(search.C_)[0])
    fit = LogisticRegression(C=strength, max_iter=1000)
    guessed = cross_val_predict(fit, alike, y, cv=5, method="predict_proba")[:, 1]
    fit.fit(alike, y)
    upper, lower = thresholds(guessed, y)
    fitted["verdict"] = {
        "weights": fit.coef_[0].tolist(),
        "bias": float(fit.intercept_[0]),
        "mean": scaler.mean_.tolist(),
        "deviation": scaler.scale_.tolist(),
        "upper": upper,
        "lower": lower,
    }
    sure = (guessed >= upper) | (guessed < lower)
    good = ((guessed >= upper) == (y == 1))[sure].mean()
    print(
        f"verdict on {len(y)} lists ({y.mean():.2f} hold): "
        f"AUC {roc_auc_score(y, guessed):.4f} at C {strength:g}; "
        f"best grade {roc_auc_score(y, best):.4f}; upper {upper:.3f}, lower {lower:.3f}; "
        f"right where sure {good:.3f}, {1 - sure.mean():.2f} ambiguous",
        flush=True,
    )
    grades = sorted(best)
    ups = [g for g in grades if y[best >= g].mean() >= CORRECT]
    lows = [g for g in grades if (best < g).any() and 1 - y[best < g].mean() >= INCORRECT]
    fitted["best_grade"] = {
        "upper": float(min(ups, default=grades[-1])),
        "lower": float(max(lows, default=grades[0])),
    }


def thresholds(chances: Any, y: Any) -> tuple[float, float]:
    """Give the lowest from which 85 % hold, and the highest below which 80 % do not."""
    ordered = np.sort(chances)
    ups = [c for c in ordered if (chances >= c).sum() >= 20 and y[chances >= c].mean() >= CORRECT]
    lows = [
        c for c in ordered if (chances < c).sum() >= 20 and 1 - y[chances < c].mean() >= INCORRECT
    ]
    upper = float(min(ups, default=ordered[-1]))
    return upper, min(upper, float(max(lows, default=ordered[0])))


if __name__ == "__main__":
    main()
