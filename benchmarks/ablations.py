"""Run figures 12 and 13 of FIT-RAG on retrieved passages, by the code of docs/ablations.md.

    python benchmarks/ablations.py DATA OUT [-n 20] [--seed 7] [--limit 0]

DATA holds `wikipool` (questions with BM25's twenty passages) and `slimplm` (questions that Llama 2
7B answered by itself, right or wrong). OUT gets `-n` questions of each of three sets in turn, of
which `--limit` are answered, the rows that the recognizer is fitted on, and the recognizer. Printed
is, for each variant, the tokens of the prompt and right answers of the bundled reader, with a 95 %
interval.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from fitrag_integrations.core.jsonl import read_jsonl, write_jsonl
from fitrag_integrations.evaluation.table import mean_interval
from fitrag_integrations.training.negatives import searching
from fitrag_integrations.training.rows import passage_row

SETS = ("nq_open_gold", "popqa", "triviaqa")
KNOWN = 120
PAGE = Path(__file__).resolve().parents[1] / "docs" / "ablations.md"


def main() -> None:
    """Write the rows, fit the recognizer and print a line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("-n", type=int, default=20, help="questions of each set")
    parser.add_argument("--limit", type=int, default=0, help="questions that are answered")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    data, out = args.data.resolve(), args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    page: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(next(block for block in blocks if "def compare" in block), page)
    with contextlib.chdir(out):
        if not Path("my-recognizer").exists():  # else an earlier run goes on
            write_rows(data, args.n, random.Random(args.seed))
            command = "train recognizer known.jsonl --out my-recognizer"
            entry = [sys.executable, "-m", "fitrag_integrations.cli"]
            subprocess.run([*entry, *command.split()], check=True)
        exec(
            next(block for block in blocks if "def recognized" in block).split("\n\n\ncompare")[0],
            page,
        )
        rows = list(read_jsonl(Path("questions.jsonl")))[: args.limit or None]
    variants = page["FIGURE_12"] | {"recognized": page["recognized"](out / "my-recognizer")}
    for name, right in page["compare"](variants | page["FIGURE_13"], rows).items():
        low, high = mean_interval(right)
        print(f"{name}: [{low:.3f}, {high:.3f}]", flush=True)


def write_rows(data: Path, count: int, chance: random.Random) -> None:
    """Write the questions of both figures, and those that the recognizer is fitted on."""
    pool = {row["id"]: passage_row(row) for row in read_jsonl(data / "wikipool/passages.jsonl.gz")}
    retrieved = list(read_jsonl(data / "wikipool/bm25_top20.jsonl.gz"))
    samples = [
        chance.sample([row for row in retrieved if row["dataset"] == dataset], count)
        for dataset in SETS
    ]
    drawn = [
        row | {"passages": [pool[name] for name in row["candidates"]]}
        for several in zip(*samples, strict=True)
        for row in several
    ]
    asked = {row["question"] for row in drawn}
    labeled = [*read_jsonl(data / "slimplm/necessity_llama2_7b.jsonl.gz")]
    labeled = chance.sample([row for row in labeled if row["question"] not in asked], KNOWN)
    found = searching([*pool.values()], depth=20)([row["question"] for row in labeled])
    known = [row | {"passages": ranked} for row, ranked in zip(labeled, found, strict=True)]
    for name, rows in (("questions", drawn), ("known", known)):
        given = (
            {key: row[key] for key in ("question", "answers", "known") if key in row}
            | {"passages": [{"title": p.title, "text": p.text} for p in row["passages"]]}
            for row in rows
        )
        write_jsonl(Path(f"{name}.jsonl"), given)


if __name__ == "__main__":
    main()
