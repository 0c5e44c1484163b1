"""Measure what the retrieval evaluator's grades and actions are worth; its speed is in speed.py.

    python benchmarks/evaluator.py DATA [-n 0] [--model DIR]

On really retrieved passages of DATA/odqa_retrieved: does the best grade tell whether one of them
holds the answer (AUC), what do the actions get right, and the same for the embedded scorer's
has_answer. Nothing here is trained or fitted on these sets.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.evaluation.ranking import auc
from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Action

SETS = ("popqa", "nq", "triviaqa")
Row = dict[str, Any]


def main() -> None:
    """Print a table of AUC, and the actions against the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=None, help="rows a set")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", default=None)
    args = parser.parse_args()
    model = args.model
    evaluator = (
        RetrievalEvaluator.embedded()
        if model is None
        else RetrievalEvaluator.from_pretrained(model)
    )
    scorer = BiLabelScorer.embedded()
    for name in SETS:
        rows = _rows(args, name)
        truth = [any(p["has_answer"] for p in row["passages"]) for row in rows]
        for called, thresholds in (("evaluator", evaluator.thresholds), ("has_answer", None)):
            began = time.process_time()
            grades = _graded(evaluator if called == "evaluator" else scorer, rows)
            seconds = time.process_time() - began
            flat = [grade for each in grades for grade in each]
            labels = [p["has_answer"] for row in rows for p in row["passages"]]
            best = auc(list(map(max, grades)), truth)
            told = f"{name} {called}: AUC of the best grade {best:.3f}"
            print(f"{told}, of a passage {auc(flat, labels):.3f}, {seconds:.1f} s")
            if thresholds is not None:
                print(_table([thresholds.action(each) for each in grades], truth))


def _table(taken: list[Action], truth: list[bool]) -> str:
    counts = Counter(zip(taken, truth, strict=True))
    lines = [
        f"  {action.value:10} answer {counts[action, True]:4}, none {counts[action, False]:4}"
        for action in Action
    ]
    sure = [
        (a is Action.CORRECT) == t for a, t in zip(taken, truth, strict=True) if a != "ambiguous"
    ]
    majority = max(fmean(truth), 1 - fmean(truth))
    told = f"  {fmean(sure):.3f} right of the {len(sure) / len(taken):.2f} not ambiguous"
    return "\n".join([*lines, f"{told}; majority {majority:.3f}"])


def _graded(model: RetrievalEvaluator | BiLabelScorer, rows: list[Row]) -> list[list[float]]:
    pairs = [pair for row in rows for pair in _pairs(row)]
    if isinstance(model, BiLabelScorer):
        grades = iter([label.grade() for label in model.score(pairs)])
    else:
        grades = iter(model.evaluate(pairs))
    return [[next(grades) for _ in row["passages"]] for row in rows]


def _pairs(row: Row) -> list[Pair]:
    return [(row["question"], passage_row(passage)) for passage in row["passages"]]


def _rows(args: argparse.Namespace, name: str) -> list[Row]:
    rows = list(read_jsonl(args.data / "odqa_retrieved" / f"{name}_top5.jsonl.gz"))
    random.Random(args.seed).shuffle(rows)
    return rows[: args.n or None]


if __name__ == "__main__":
    main()
