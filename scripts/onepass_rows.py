"""Write the rows the head of the one-pass scorer is trained on, from a data folder.

    python scripts/onepass_rows.py DATA RUNS OUT --without ROWS [--without ...]

Reads RUNS/scorer.jsonl, which no encoder was trained on, and the questions of DATA/nq_oracle;
writes lists of five passages of about a hundred words, as retrieval gives them: the right one and
its neighbours by BM25, with the answers. No question of ROWS, which the scorer was trained on, is
taken: it is too sure of those. No question that DATA/odqa_retrieved measures is taken,
and only sets with a permissive or share-alike licence are read.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluator_rows import _cropped, _measured, _pool, key

from fitrag_integrations.training.labels.negatives import candidates
from fitrag_integrations.training.rows import (
    ReadingRow,
    passage_row,
    read_jsonl,
    reading_row,
    write_jsonl,
)
from fitrag_integrations.types import Passage

LIST = 5


def main() -> None:
    """Read the sets, find the neighbours, cut, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--without", type=Path, action="append", default=[])
    parser.add_argument("--questions", type=int, default=1300)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    measured = {key(question) for question in _measured(args.data)}
    measured |= {key(row["question"]) for path in args.without for row in read_jsonl(path)}
    asked = [row for row in _asked(args.data, args.runs) if key(row.question) not in measured]
    asked = chance.sample(asked, min(args.questions, len(asked)))
    pool = list(dict.fromkeys([*_pool(args.data), *(row.passage for row in asked)]))
    ranked = candidates([row.question for row in asked], pool, depth=LIST)
    rows = [_list(row, near, chance) for row, near in zip(asked, ranked, strict=True)]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_jsonl(args.out, rows)


def _asked(data: Path, runs: Path) -> Iterator[ReadingRow]:
    for row in read_jsonl(data / "nq_oracle" / "nq_open_gold.jsonl.gz"):
        yield ReadingRow(row["question"], tuple(row["answers"]), passage_row(row["gold_passage"]))
    for row in read_jsonl(runs / "scorer.jsonl"):
        if row["answers"]:
            yield reading_row(row)


def _list(row: ReadingRow, near: list[Passage], chance: random.Random) -> dict[str, Any]:
    others = [passage for passage in near if passage.text != row.passage.text]
    some = [_cropped(row.passage, chance, row.answers), *(_cropped(p, chance) for p in others)]
    return {
        "question": row.question,
        "answers": list(row.answers),
        "passages": [{"title": p.title, "text": p.text} for p in some[:LIST]],
    }


if __name__ == "__main__":
    main()
