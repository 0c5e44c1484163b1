"""Measure ITRG's expanded query: recall of supporting passages beside the question alone.

    python benchmarks/multihop.py DATA [--index FOLDER] [-n 0] [--k 5]

Multi-hop questions (HotpotQA and 2Wiki test halves, MuSiQue) over the passages of `wikipool`, by
the embedded encoder. The documents are recorded answers of a language model, without and with one
retrieval. DATA holds `multihop` and `wikipool`; nothing here is trained on. The index is built
once, in a quarter of an hour on one core, and kept in FOLDER.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.table import Measured, Table
from fitrag_integrations.methods.writing import expanded_query
from fitrag_integrations.retrieval import FaissIndex
from fitrag_integrations.training.rows import read_jsonl
from fitrag_integrations.types import Passage

SETS = {
    "hotpotqa": "hotpotqa_test",
    "2wikimultihopqa": "2wikimultihopqa_test",
    "musique": "musique_slimplm",
}
RECORDED = ("llm_answer_no_retrieval", "llm_answer_one_retrieval")


def main() -> None:
    """Print a table for each set: the ways of asking, beside the question alone."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--index", type=Path, default=Path("runs/wikipool-minilm"))
    parser.add_argument("-n", type=int, default=0, help="questions a set, 0 for all")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    args = parser.parse_args()
    if not args.index.is_dir():
        texts = read_jsonl(args.data / "wikipool" / "passages.jsonl.gz")
        pool = [Passage(row["id"], row["text"], row["title"]) for row in texts]
        FaissIndex.build(pool, show_progress=True).save(args.index)
    index = FaissIndex.load(args.index)
    every = list(read_jsonl(args.data / "wikipool" / "bm25_top20.jsonl.gz"))

    def recalls(queries: Sequence[str], gold: Sequence[set[str]]) -> list[float]:
        found = [{p.id for p in passages} for passages in index.search(list(queries), args.k)]
        return [len(g & ids) / len(g) for g, ids in zip(gold, found, strict=True)]

    for name in args.sets:
        rows: list[dict[str, Any]] = list(
            read_jsonl(args.data / "multihop" / f"{SETS[name]}.jsonl.gz")
        )[: args.n or None]
        known = {row["id"]: set(row["gold_ids"]) for row in every if row["dataset"] == name}
        gold = [known[row["id"]] for row in rows]
        queries = {"the question": [row["question"] for row in rows]}
        for field in (field for field in RECORDED if field in rows[0]):
            asked = [expanded_query(row["question"], row[field]) for row in rows]
            queries[f"[q; {field}]"] = asked
        measured = [
            Measured(row["id"], {f"recall@{args.k}": value}, system)
            for system, texts in queries.items()
            for row, value in zip(rows, recalls(texts, gold), strict=True)
        ]
        print(Table(f"{name}, {len(rows)} questions", measured).text(), flush=True)


if __name__ == "__main__":
    main()
