"""Measure the embedded models through the command line, on question sets in a data folder.

    python benchmarks/embedded.py ranking DATA [-n 60] [--seed 7]
    python benchmarks/embedded.py reading DATA [-n 0]

`ranking`: `fitrag score` over BM25's top 20, mean reciprocal rank by has_answer beside BM25's order
and the ceiling. `reading`: `fitrag read` on SQuAD dev contexts, token F1. DATA holds the folders
`wikipool` and `squad`. Nothing here is trained on; -n 0 takes every question.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.evaluation.answers import token_f1
from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.training.rows import read_jsonl, write_jsonl

SETS = ("nq_open_gold", "squad_dev", "hotpotqa", "popqa", "triviaqa")
Row = dict[str, Any]


def main() -> None:
    """Measure what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["ranking", "reading"])
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=60, help="questions a set, 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    measure = {"ranking": ranking, "reading": reading}[args.what]
    print(measure(args.data, args.n, args.seed))


def ranking(data: Path, n: int, seed: int) -> str:
    """Compare the order by has_answer with BM25's, set by set."""
    folder = data / "wikipool"
    texts = {row["id"]: row for row in read_jsonl(folder / "passages.jsonl.gz")}
    by_set: dict[str, list[Row]] = {}
    for row in read_jsonl(folder / "bm25_top20.jsonl.gz"):
        by_set.setdefault(row["dataset"], []).append(row)
    chosen = {name: _sample(by_set[name], n, seed) for name in SETS}
    asked = [_with_passages(row, texts) for rows in chosen.values() for row in rows]
    scored = iter(fitrag("score", asked))
    lines, means, pairs = [], [], list[tuple[float, int]]()
    for name, rows in chosen.items():
        got = [[s["has_answer"] for s in next(scored)["scores"]] for _ in rows]
        gold = [row["has_answer"] for row in rows]
        pairs += [pair for s, g in zip(got, gold, strict=True) for pair in zip(s, g, strict=True)]
        ours = fmean(_rank(_by_score(s, g)) for s, g in zip(got, gold, strict=True))
        bm25, ceiling = fmean(map(_rank, gold)), fmean(float(any(g)) for g in gold)
        means.append((ours, bm25, ceiling))
        lines.append(f"{name}: {ours:.3f}, BM25 {bm25:.3f}, ceiling {ceiling:.3f}")
    ours, bm25, ceiling = (fmean(column) for column in zip(*means, strict=True))
    scores, labels = zip(*pairs, strict=True)
    return "\n".join(
        [
            *lines,
            f"mean: {ours:.3f}, BM25 {bm25:.3f}, ceiling {ceiling:.3f}",
            f"gap closed {(ours - bm25) / (ceiling - bm25):.2f}",
            f"worst set against BM25 {min(a - b for a, b, _ in means):+.3f}",
            f"calibration error {calibration_error(scores, labels):.3f}",
        ]
    )


def reading(data: Path, n: int, seed: int) -> str:
    """Read each answer from its own paragraph."""
    rows = _sample(list(read_jsonl(data / "squad" / "squad_dev_xquad_en.jsonl.gz")), n, seed)
    asked = [
        {
            "question": row["question"],
            "passages": [{"title": row["title"].replace("_", " "), "text": row["context"]}],
        }
        for row in rows
    ]
    answers = [row["answer"] for row in fitrag("read", asked)]
    score = fmean(token_f1(a, row["answers"]) for a, row in zip(answers, rows, strict=True))
    return f"token F1 {score:.3f} over {len(rows)} questions"


def fitrag(verb: str, rows: Iterable[Row]) -> list[Row]:
    """Run a verb of the command line over rows."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        write_jsonl(source, rows)
        subprocess.run(["fitrag", verb, source, target, "--quiet"], check=True)
        return list(read_jsonl(target))


def _with_passages(row: Row, texts: dict[str, Row]) -> Row:
    passages = [{k: texts[i][k] for k in ("title", "text")} for i in row["candidates"]]
    return {"question": row["question"], "passages": passages}


def _sample(rows: list[Row], n: int, seed: int) -> list[Row]:
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    return shuffled[: n or None]


def _by_score(scores: list[float], labels: list[int]) -> list[int]:
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return [labels[i] for i in order]


def _rank(labels: Iterable[int]) -> float:
    """Give one over the place of the first positive, 0 where there is none."""
    return next((1 / place for place, label in enumerate(labels, start=1) if label), 0.0)


if __name__ == "__main__":
    main()
