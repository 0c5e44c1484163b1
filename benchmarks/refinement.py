"""Measure knowledge refinement (CRAG, section 4.4): does the answer survive, in how many tokens?

    python benchmarks/refinement.py DATA [-n 200] [--seed 7] [--sentences 1] [--threshold T]

One passage that holds the answer per question: SQuAD dev contexts (English part of XQuAD) and
NQ-open gold passages. --held FILE keeps to the questions of a JSON Lines file, such as those an
evaluator was not trained on.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.rows import read_jsonl
from fitrag_integrations.types import Passage

Asked = tuple[str, list[str], Passage]


def main() -> None:
    """Measure both sets and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=200, help="questions a set, 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sentences", type=int, default=None)
    parser.add_argument("--top-n", type=int, default=5)
    parser.add_argument("--threshold", type=float, default=None)
    parser.add_argument("--model", default=None)
    parser.add_argument("--held", type=Path, default=None)
    args = parser.parse_args()
    evaluator = (
        RetrievalEvaluator.embedded()
        if args.model is None
        else RetrievalEvaluator.from_pretrained(args.model)
    )
    refiner = Refiner(
        evaluator, top_n=args.top_n, threshold=args.threshold, sentences=args.sentences
    )
    held = None if args.held is None else {row["question"] for row in read_jsonl(args.held)}
    for name, read in (("SQuAD dev", _squad), ("NQ gold", _nq)):
        rows = [row for row in read(args.data) if contains_answer(row[2].text, row[1])]
        if held is not None and name == "NQ gold":
            rows = [row for row in rows if row[0] in held]
        random.Random(args.seed).shuffle(rows)
        print(f"{name}: {_measured(refiner, rows[: args.n or None])}")


def _measured(refiner: Refiner, rows: list[Asked]) -> str:
    flows = [refiner(question, [passage]) for question, _, passage in rows]
    refined = [traced.value for traced in run_many(flows)]
    kept = [" ".join(excerpt.text for excerpt in one.excerpts) for one in refined]
    survived = sum(contains_answer(t, a) for t, (_, a, _) in zip(kept, rows, strict=True))
    before = sum(approximate_tokens(passage.text) for _, _, passage in rows)
    after = sum(map(approximate_tokens, kept))
    told = f"the answer survives in {survived / len(rows):.3f} of {len(rows)}"
    return f"{told}, {after / before:.3f} of the tokens kept, strips from {refiner.limit():.3f}"


def _squad(data: Path) -> Iterator[Asked]:
    for row in read_jsonl(data / "squad" / "squad_dev_xquad_en.jsonl.gz"):
        title = row["title"].replace("_", " ")
        yield row["question"], row["answers"], Passage(str(row["id"]), row["context"], title)


def _nq(data: Path) -> Iterator[Asked]:
    row: dict[str, Any]
    for row in read_jsonl(data / "nq_oracle" / "nq_open_gold.jsonl.gz"):
        gold = row["gold_passage"]
        yield row["question"], row["answers"], Passage(str(row["id"]), gold["text"], gold["title"])


if __name__ == "__main__":
    main()
