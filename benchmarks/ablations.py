"""Run figures 12 and 13 of FIT-RAG on retrieved passages, by the commands of docs/ablations.md.

    python benchmarks/ablations.py DATA OUT [-n 20] [--seed 7] [--limit 0]

DATA holds `wikipool` (questions with BM25's twenty passages) and `slimplm` (questions that Llama 2
7B answered by itself, right or wrong). OUT gets the recipes of the page, `-n` questions of each of
three sets in turn, of which `--limit` are answered, the rows that the recognizer is fitted on, and
the output of each verb. Printed is, for each recipe, the tokens of the prompt, right answers with a
95 % interval, and on how many questions prompt size and answer differ from the first recipe and
from `reduced`. Where the prompt of `recognized` differs from `reduced`, the recognizer left the
passages out.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.core.jsonl import read_jsonl, write_jsonl
from fitrag_integrations.evaluation.figure import mean_interval
from fitrag_integrations.training.negatives import candidates
from fitrag_integrations.training.rows import passage_row

SETS = ("nq_open_gold", "popqa", "triviaqa")
KNOWN = 120
PAGE = Path(__file__).resolve().parents[1] / "docs" / "ablations.md"
FIGURES = {
    "figure12": ("plain", "undetected", "reduced", "recognized"),
    "figure13": ("top5", "reduced", "top15", "top20"),
}


def main() -> None:
    """Write the rows, run the commands and print a line for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("-n", type=int, default=20, help="questions of each set")
    parser.add_argument("--limit", type=int, default=0, help="questions that are answered")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    data, out = args.data.resolve(), args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (recipes,) = re.findall(r"```python\n(import json\n.*?)```", PAGE.read_text(), re.DOTALL)
    with contextlib.chdir(out):
        if not Path("my-recognizer").exists():  # else an earlier run goes on
            exec(recipes, {})
            write_rows(data, args.n, random.Random(args.seed))
            fitrag("train recognizer known.jsonl --out my-recognizer")
        for figure, names in FIGURES.items():
            methods = ",".join(f"{name}.toml" for name in names)
            command = f"evaluate methods questions.jsonl --out {figure}.jsonl --methods {methods}"
            fitrag(f"{command} --limit {args.limit or args.n * len(SETS)}")
            show(figure, list(read_jsonl(Path(f"{figure}.jsonl"))), names)


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
    found = candidates([row["question"] for row in labeled], [*pool.values()], depth=20)
    known = [row | {"passages": ranked} for row, ranked in zip(labeled, found, strict=True)]
    for name, rows in (("questions", drawn), ("known", known)):
        given = (
            {key: row[key] for key in ("question", "answers", "known") if key in row}
            | {"passages": [{"title": p.title, "text": p.text} for p in row["passages"]]}
            for row in rows
        )
        write_jsonl(Path(f"{name}.jsonl"), given)


def fitrag(command: str) -> None:
    """Run a verb and stop if it fails."""
    print(f"fitrag {command}", flush=True)
    subprocess.run([sys.executable, "-m", "fitrag_integrations.cli", *command.split()], check=True)


def show(figure: str, rows: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    """Print a figure's recipes, each beside the first and beside `reduced`."""
    by = {name: [row for row in rows if row["method"] == name] for name in names}
    print(f"{figure}, {len(by[names[0]])} questions")
    for name, own in by.items():
        hits = [float(row["correct"]) for row in own]
        low, high = mean_interval(hits)
        beside = "; ".join(
            f"other tokens, answer than {other}: "
            + ", ".join(
                str(sum(a[key] != b[key] for a, b in zip(own, by[other], strict=True)))
                for key in ("tokens_in", "answer")
            )
            for other in dict.fromkeys((names[0], "reduced"))
            if other != name
        )
        tokens = fmean(row["tokens_in"] for row in own)
        right = f"{fmean(hits):.3f} [{low:.3f}, {high:.3f}]"
        print(f"{name:11} tokens {tokens:6.0f}, right {right}; {beside}", flush=True)


if __name__ == "__main__":
    main()
