"""Measure compression as it ships: is the answer still inside, at which fraction of the words?

    python benchmarks/compression.py DATA [--sets nq squad_dev] [-n 60] [--seed 7]
        [--json out.json] [--dtype bfloat16]

Passages that hold an answer only. For each way: the answers kept, the fraction of the words, and
the accuracy of the embedded reader against reading everything (McNemar's test). Other libraries'
ways are compared in `worth.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compression_rows import SETS, Asked, load

from fitrag_integrations.evaluation.table import Draws, Measured, Table
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.models import ExtractiveReader
from fitrag_integrations.types import Excerpt, Passage

SHIPPED = {
    "FitRag()": TokenReducer(top_n=None),
    "FitRag(window=3)": TokenReducer(window=3, top_n=None),
    "FitRag(window=3, detector=False)": TokenReducer(window=3, top_n=None, detector=False),
}
AT_ONCE = 16


def main() -> None:
    """Measure each set and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("-n", type=int, default=60, help="questions a set, 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--dtype", default=None)
    args = parser.parse_args()
    reader = ExtractiveReader.embedded(dtype=args.dtype)
    found: list[Measured] = []
    for name in args.sets:
        rows = load(args.data, name, n=args.n, seed=args.seed)
        kept = {"all passages": [list(map(Excerpt.whole, row.passages)) for row in rows]}
        for way, reducer in SHIPPED.items():
            flows = [reducer.context(row.question, row.passages) for row in rows]
            lots = [flows[at : at + AT_ONCE] for at in range(0, len(flows), AT_ONCE)]
            kept[way] = [list(one.value.excerpts) for lot in lots for one in run_many(lot)]
        for way, excerpts in kept.items():
            right = _right(rows, excerpts, reader)
            for row, own, good in zip(rows, excerpts, right, strict=True):
                values = {"kept": float(row.holds(own)), "words": row.share(own), "accuracy": good}
                found.append(Measured(f"{name}: {row.question}", values, way, name))
    table = Table("Compression as it ships", found, Draws(resamples=500))
    print(table.text())
    if args.json is not None:
        table.write(args.json)


def _right(
    rows: Sequence[Asked], kept: Sequence[Sequence[Excerpt]], reader: ExtractiveReader
) -> list[float]:
    """Answer from the passage the reader trusts most, what is left of it read as one text."""
    right = []
    for row, own in zip(rows, kept, strict=True):
        groups: dict[Passage, list[Excerpt]] = {}
        for excerpt in sorted(own, key=lambda one: one.start):
            groups.setdefault(excerpt.passage, []).append(excerpt)
        texts = [replace(p, text=" ".join(e.text for e in part)) for p, part in groups.items()]
        answers = reader.read([(row.question, text) for text in texts])
        best = max(answers, key=lambda answer: answer.score)
        right.append(float(row.is_right(best.text)))
    return right


if __name__ == "__main__":
    main()
