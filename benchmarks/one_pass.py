"""Is the answer kept as often where windows are judged in one pass as where each is read?

    python benchmarks/one_pass.py DATA [--model FOLDER]

Of questions with retrieved passages, some holding an answer, and of paragraphs (the layout of
`odqa_retrieved` and `squad`): how often the best windows still hold it, and the share of the words
they keep. Once with the best window of each passage, once with as many of these, best first, as
cost at most a share of the words. Beside both scorings stand word overlap and the first sentences.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer, tokens
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.fitrag.reducer import TokenReducer, score_port
from fitrag_integrations.models import OnePassScorer
from fitrag_integrations.training.rows import read_jsonl
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.windows import best_per_passage, by_score

SETS = ("nq", "popqa", "triviaqa", "squad_dev")
SHARES = (1.0, 0.5, 0.4, 0.3)
TOGETHER = 16  # questions in a call


@dataclass(frozen=True)
class Row:
    """Hold a question, its answers and its passages, one of which holds an answer."""

    question: str
    answers: list[str]
    passages: list[Passage]


def main() -> None:
    """Score by both, and tell what is kept at each share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default=None, help="A one-pass scorer's folder.")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--rows", type=int, default=None, help="Rows a set, all without it.")
    parser.add_argument("--dtype", default=None)
    args = parser.parse_args()
    how: dict[str, Any] = {"device": "cpu", "dtype": args.dtype}
    scorer = (
        OnePassScorer.embedded(**how)
        if args.model is None
        else OnePassScorer.from_pretrained(args.model, **how)
    )
    for name in args.sets:
        rows = [*islice(taken(args.data, name), args.rows)]
        print(f"{name}: {len(rows)} rows", flush=True)
        for scoring in ("windows", "one_pass", "word overlap", "first sentences"):
            ranked = best(rows, scoring, scorer)
            told = ", ".join(f"{kept:.3f} at {share:.2f}" for kept, share in curve(rows, ranked))
            print(f"  {scoring:15} {told}", flush=True)


def taken(data: Path, name: str) -> Iterator[Row]:
    """Read the rows of a set in which some passage holds an answer."""
    if name == "squad_dev":
        for row in read_jsonl(data / "squad" / "squad_dev_xquad_en.jsonl.gz"):
            title = row["title"].replace("_", " ")
            yield Row(row["question"], row["answers"], [Passage("0", row["context"], title)])
        return
    for row in read_jsonl(data / "odqa_retrieved" / f"{name}_top5.jsonl.gz"):
        if any(passage["has_answer"] for passage in row["passages"]):
            given = [
                Passage(str(i), p["text"], p["title"] or "") for i, p in enumerate(row["passages"])
            ]
            yield Row(row["question"], row["answers"], given)


def best(rows: list[Row], scoring: str, scorer: OnePassScorer) -> list[list[Excerpt]]:
    """Give the best window of each passage, best first, for each row."""
    if scoring in ("windows", "one_pass"):
        reducer, port = TokenReducer(window=3, scoring=scoring, detector=False), score_port(scorer)
        ranked = []
        for at in range(0, len(rows), TOGETHER):
            some = rows[at : at + TOGETHER]
            flows = [reducer.reduction(row.question, row.passages, port) for row in some]
            ranked += [list(traced.value.ranked) for traced in run_many(flows)]
        return ranked
    judge = overlap if scoring == "word overlap" else first
    return [by_score(best_per_passage(judged(row, judge))) for row in rows]


def judged(row: Row, judge: Callable[[Row, Excerpt], float]) -> Iterator[Excerpt]:
    """Score the windows of a row without a model."""
    for passage in row.passages:
        for one in TokenReducer(window=3).cut(passage):
            yield Excerpt(one.passage, one.start, one.end, judge(row, one))


def overlap(row: Row, excerpt: Excerpt) -> float:
    """Count the question's words in a window."""
    return float(len(set(tokens(row.question)) & set(tokens(excerpt.text))))


def first(row: Row, excerpt: Excerpt) -> float:
    """Prefer the beginning, and passages as they were ranked."""
    return -float(excerpt.start + int(excerpt.passage.id) / 100)


def curve(rows: list[Row], ranked: list[list[Excerpt]]) -> Iterator[tuple[float, float]]:
    """Give the rate of answers kept and the share of words kept, at each share allowed."""
    for most in SHARES:
        kept, shares = [], []
        for row, excerpts in zip(rows, ranked, strict=True):
            whole = sum(len(passage.text.split()) for passage in row.passages)
            shown, words = list[Excerpt](), 0
            for excerpt in excerpts:
                count = len(excerpt.text.split())
                if shown and words + count > most * whole:
                    break
                shown.append(excerpt)
                words += count
            held = (contains_answer(f"{e.passage.title} {e.text}", row.answers) for e in shown)
            kept.append(float(any(held)))
            shares.append(words / whole)
        yield fmean(kept), fmean(shares)


if __name__ == "__main__":
    main()
