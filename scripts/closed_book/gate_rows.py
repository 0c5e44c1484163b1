"""Write the rows the embedded gate is trained, calibrated and measured on.

    python -m scripts.closed_book.gate_rows OUT [--split test ...] [--reranked 500]

OUT gets one file per split of the closed-book questions: `gate_train.jsonl`, labelled as by `fitrag
label ik`, and `gate_valid.jsonl` and `test.jsonl`, which also tell what retrieval gives.
`right_without` is the model's own answer; all others are the extractive reader's, right where a
gold answer stands in it: `right_with` from the first passage alone, `right_five` from five, and
`right_reranked`, for the first so many test questions of a seeded order, from those five after
FIT-RAG has reranked and cut them.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fitrag_integrations.commands.engine.batch import CHUNK
from fitrag_integrations.commands.engine.options import RunOptions
from fitrag_integrations.commands.label.known import LabelIK
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import Direct, FitRag
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.models import ExtractiveReader
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.retrieval import FaissIndex, read_corpus
from scripts.closed_book.demo_facts import EMBEDDED, read_rows, write_rows

HOME = EMBEDDED / "closed_book"
SPLITS = ("gate_train", "gate_valid", "test")
Row = dict[str, Any]
Answer = Callable[[Method, int, Sequence[str]], list[str]]


def main() -> None:
    """Label every split, and answer with retrieval where answers are compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", action="append", choices=SPLITS)
    parser.add_argument("--reranked", type=int, default=500, help="test questions to rerank for")
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    answer = None
    for split in args.split or SPLITS:
        rows = label(split, args.out)
        if split != "gate_train":
            answer = answer or answerer()
            add_answers(rows, answer, "with", Direct(), 1)
            add_answers(rows, answer, "five", Direct(), 5)
            if split == "test":
                random.Random(args.seed).shuffle(rows)
                chosen, method = rows[: args.reranked], FitRag(top_n=3, scoring="windows")
                add_answers(chosen, answer, "reranked", method, 5)
            write_rows(args.out / f"{split}.jsonl", rows)


def label(split: str, out: Path) -> list[Row]:
    """Ask the closed-book model, by the verb that does it."""
    asked, labelled = out / f"{split}.questions.jsonl", out / f"{split}.jsonl"
    every = read_rows(HOME / "questions.jsonl")
    write_rows(asked, [row for row in every if row["split"] == split])
    how = RunOptions(overwrite=True, quiet=True)
    LabelIK(str(asked), str(labelled), how=how).run()
    rows = read_rows(labelled)
    return [{**row, "right_without": int(row["known"])} for row in rows]


def answerer() -> Answer:
    """Build what answers questions from the passages of the closed-book world."""
    index = FaissIndex.build(read_corpus(HOME / "passages.jsonl"))
    reads: Any = (
        ExtractiveReader.embedded().read
    )  # without its threshold: abstaining is no use here

    def answer(method: Method, k: int, questions: Sequence[str]) -> list[str]:
        ports = Ports(retrieve=index.as_retriever(k))
        answering = Answering(method, reader=reads)
        flows = [answering(question, ports) for question in questions]
        return [traced.value.text for traced in run_many(flows)]

    return answer


def add_answers(rows: Sequence[Row], answer: Answer, name: str, method: Method, k: int) -> None:
    """Add the answers of a method from `k` passages, and whether they are right."""
    for chunk in chunks(rows, CHUNK):
        told = answer(method, k, [row["question"] for row in chunk])
        for row, text in zip(chunk, told, strict=True):
            row[f"answer_{name}"] = text
            row[f"right_{name}"] = int(contains_answer(text, row["answers"]))


if __name__ == "__main__":
    main()
