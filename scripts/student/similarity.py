"""Fit what the base's cosine adds to a passage's logits, by kind of text, at given weights.

    python scripts/student/similarity.py DATA [-n 40] [--weights 0 2 4 6 8 10]

A line over logit and cosine is fitted by logistic regression for each weight of the cosine against
the logit, each set of lists with the same weight in it: for `has_answer` and for the grade. The
lists are those of the choosing half of `benchmarks/real_questions.py` that may train (headings of
FAQ pages, meetings, tables of reports), and of the sets whose license lets numbers fitted on them
ship. Prints slope, weight, shift, log loss and calibration error by kind, and the MRR by both
labels of lists that choose: by hand, a weight becomes `similarity` in the scorer's and the
evaluator's `model.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

HOME = Path(__file__).resolve().parent
sys.path[:0] = [str(HOME.parents[1] / "benchmarks")]

from real_questions import drawn, lists  # noqa: E402

from fitrag_integrations.evaluation.outcomes import calibration_error  # noqa: E402
from fitrag_integrations.evaluation.ranking import reciprocal_rank  # noqa: E402
from fitrag_integrations.models.bundled import BundledEvaluator, BundledScorer  # noqa: E402
from fitrag_integrations.models.encoder.items import Lines, kind_of  # noqa: E402

LICENSED = (
    "mtrag", "covidqa", "pubmedqa", "clapnq_dev", "qed_dev", "quoref", "timeqa_human",
)  # fmt: skip
CUT = 1 - 1e-7  # of a grade


def main() -> None:
    """Print the lines of each kind, then the order of the lists."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=40, help="lists a kind that train")
    parser.add_argument("--weights", type=float, nargs="*", default=[0, 2, 4, 6, 8, 10])
    args = parser.parse_args()
    scorer, grader = BundledScorer(), BundledEvaluator()
    scorer._lines = grader._lines = Lines()
    choosing = [measured(one, scorer, grader) for one in drawn(args.data, "choose", 8, 7)]
    own = [one for one in choosing if one["set"] in LICENSED]
    rows = own + [measured(one, scorer, grader) for one in training(args.data, args.n)]
    for kind in sorted({name for one in rows for name in one["kinds"]}):
        for label in ("has_answer", "grade"):
            for weight in args.weights:
                print(f"{kind}, {label}, {weight:g}: {line(rows, kind, label, weight)}")
    for weight in args.weights:
        by = defaultdict[str, list[float]](list)
        for one in choosing:
            scores = (one["has_answer"] + one["llm_prefer"]) / 2 + weight * one["cosine"]
            order = np.argsort(-scores, kind="stable")
            by[one["set"]].append(reciprocal_rank([bool(one["gold"][i]) for i in order]))
        told = ", ".join(f"{name} {fmean(values):.3f}" for name, values in by.items())
        print(f"MRR at {weight:g}: {fmean(chain(*by.values())):.3f}; {told}")


def training(data: Path, count: int) -> Any:
    """Yield up to `count` lists of each kind that may train, pages in turn."""
    by: dict[str, dict[str, list[Any]]] = {}
    for one in lists(data):
        if one.half() == "choose" and one.trains():
            by.setdefault(one.kind, {}).setdefault(one.page, []).append(one)
    for pages in by.values():
        turns = chain.from_iterable(zip_longest(*pages.values()))
        yield from [one for one in turns if one is not None][:count]


def measured(one: Any, scorer: BundledScorer, grader: BundledEvaluator) -> dict[str, Any]:
    """Return a list's raw logits and cosines."""
    pairs = [(one.row.question, passage) for passage in one.row.passages]
    labels = scorer.score(pairs)
    near = scorer._engine.worker.call(scorer._engine.nearness.of, [(*pair, ()) for pair in pairs])
    return {
        "set": one.kind,
        "gold": np.array(one.gold),
        "kinds": [kind_of(passage.text) for _, passage in pairs],
        "has_answer": np.array([each.has_answer_logit for each in labels]),
        "llm_prefer": np.array([each.llm_prefer_logit for each in labels]),
        "grade": 2 * np.arctanh(np.clip(grader.evaluate(pairs), -CUT, CUT)),
        "cosine": np.concatenate(near),
    }


def line(rows: list[dict[str, Any]], kind: str, label: str, weight: float) -> str:
    """Fit slope and shift of logit + weight x cosine over the passages of a kind."""
    found = [
        (one["set"], logit, cosine, gold)
        for one in rows
        for own, *_, logit, cosine, gold in zip(
            one["kinds"], one[label], one["cosine"], one["gold"], strict=True
        )
        if own == kind
    ]
    sets, logits, cosines, gold = (np.array(column) for column in zip(*found, strict=True))
    if gold.min() == gold.max():
        return "all alike"
    counts = Counter(sets.tolist())
    shares = np.array([1 / counts[name] for name in sets.tolist()])
    shares *= len(shares) / shares.sum()
    summed = (logits + weight * cosines)[:, None]
    fit = LogisticRegression(C=100).fit(summed, gold, shares)
    slope, shift = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    chances = fit.predict_proba(summed)[:, 1]
    loss = log_loss(gold, chances, sample_weight=shares)
    error = calibration_error(chances.tolist(), gold.tolist())
    numbers = f"{slope:.2f}, {slope * weight:.2f}, {shift:.2f}"
    return f"[{numbers}], log loss {loss:.4f}, calibration error {error:.3f}, {len(gold)} passages"


if __name__ == "__main__":
    main()
