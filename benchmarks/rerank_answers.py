"""Measure what the order of passages is worth to the embedded reader, on retrieved passages.

    python benchmarks/rerank_answers.py DATA [-n 0] [--plot out.png] [--keep rows.jsonl]

The reader answers from the first passage, and from the first three the answer it trusts most; right
is an answer that holds a gold one. Orders by the embedded scorer's labels and their sum are
compared with the retriever's by a paired bootstrap and McNemar's test. Nothing here is trained on.

In these files a passage holds the answer the more often the later it stands: they seem to be
written best last. The retriever's order is therefore taken both ways, as stored and reversed, and
the reversed one is what a scorer has to beat. --keep writes scores and answers beside the rows, and
reads them back where the file is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer, exact_match
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.ranking import Ranking
from fitrag_integrations.evaluation.ranking import Candidates
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import BiLabelScore

SETS = ("nq", "popqa", "triviaqa")
Row = dict[str, Any]


def main() -> None:
    """Measure each set and all of them, with the stored order and with the reverse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=0, help="questions a set, 0 for all")
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--keep", type=Path, default=None)
    args = parser.parse_args()
    rows = list(_measured(args.data, args.n, args.keep))
    for name, turn in (("as stored", False), ("reversed", True)):
        ranked = [_candidates(row, turn) for row in rows]
        for chosen in (*SETS, ""):
            some = [one for one in ranked if chosen in ("", one.set)]
            if some:
                print(f"{chosen or 'all'}, retriever's order {name}, {len(some)} questions")
                print("\n".join(_lines(Ranking(some))))
        if args.plot is not None and turn:
            _draw(Ranking(ranked), args.plot)


def _measured(data: Path, n: int, keep: Path | None) -> Iterator[Row]:
    if keep is not None and keep.is_file():
        yield from read_jsonl(keep)
        return
    scorer, reader = BiLabelScorer.embedded(), ExtractiveReader.embedded()
    kept = None if keep is None else keep.open("w", encoding="utf-8")
    for name in SETS:
        rows = list(read_jsonl(data / "odqa_retrieved" / f"{name}_top5.jsonl.gz"))
        for row in rows[: n or None]:
            pairs = [(row["question"], passage_row(p)) for p in row["passages"]]
            labels = [[s.has_answer, s.llm_prefer] for s in scorer.score(pairs)]
            answers = [[a.text, a.score] for a in reader.read(pairs)]
            made = {**row, "set": name, "scores": labels, "read": answers}
            if kept is not None:
                kept.write(json.dumps(made) + "\n")
            yield made


def _candidates(row: Row, turn: bool) -> Candidates:
    step, gold = -1 if turn else 1, row["answers"]
    texts, trust = zip(*row["read"][::step], strict=True)
    right = tuple(contains_answer(text, gold) or exact_match(text, gold) for text in texts)
    return Candidates(
        tuple(int(passage["has_answer"]) for passage in row["passages"][::step]),
        tuple(BiLabelScore(*labels) for labels in row["scores"][::step]),
        llm_prefer=tuple(map(int, right)),
        right=right,
        trust=trust,
        set=row["set"],
    )


def _lines(ranking: Ranking) -> Iterator[str]:
    for figure in ranking.figures([1, 3], [1, 3]):
        if not figure.name.startswith("nDCG"):
            yield f"  {figure.name:<11} {figure.who:<10} {_told(figure)}"
    gaps = ranking.gap_closed()
    yield "  gap closed  " + ", ".join(f"{by} {gap or 0.0:.2f}" for by, gap in gaps.items())


def _told(figure: Figure) -> str:
    told, change = f"{figure.value or 0.0:.3f}", figure.change
    if change is not None and change.bounds is not None:
        told += f" {change.value:+.3f} ({change.bounds[0]:+.3f} to {change.bounds[1]:+.3f})"
    return told if change is None or change.p is None else f"{told}, p {change.p:.1e}"


def _draw(ranking: Ranking, path: Path) -> None:
    from fitrag_integrations.evaluation.plots import plot_ranking

    plot_ranking(ranking.curves(), ranking.figures([1], [1, 3])).savefig(path)


if __name__ == "__main__":
    main()
