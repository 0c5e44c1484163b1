"""Compare the outputs of every verb between two versions of the package.

    PYTHONPATH=OLD_CHECKOUT python benchmarks/same_outputs.py run ROWS OLD
    PYTHONPATH=NEW_CHECKOUT python benchmarks/same_outputs.py run ROWS NEW
    python benchmarks/same_outputs.py compare OLD NEW

ROWS is a JSON Lines file with question and passages[{title, text}]. `run` uses the first 200 rows
with five passages each and the bundled models, and writes one output per verb. `compare` prints for
each output whether it is equal to the byte, else how many rows differ and the largest difference of
a number. The exit code is 1 if a row has other fields or other text.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROWS, PASSAGES = 200, 5
VERBS = {
    "score": "score {rows}",
    "compress": "compress {rows}",
    "compress_windows": "compress {rows} --window 3",
    "compress_tokens": "compress {rows} --max-tokens 100",
    "read": "read {rows}",
    "route": "route {rows}",
    "gate": "gate {rows}",
    "retrieve": "retrieve {rows} --corpus {corpus}",
    "retrieve_dense": "retrieve {rows} --index {index}",
    "answer": "answer {rows}",
    "answer_crag": "answer {rows} --method crag",
}


def main() -> None:
    """Run the verbs, or compare two runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("first", type=Path, help="rows, or the outputs of the old version")
    parser.add_argument("second", type=Path, help="where to write, or the new version's outputs")
    args = parser.parse_args()
    if args.what == "run":
        run(args.first, args.second)
    else:
        raise SystemExit(int(not compare(args.first, args.second)))


def run(source: Path, out: Path) -> None:
    """Write the output of each verb on the first rows of `source`."""
    out.mkdir(parents=True, exist_ok=True)
    rows, corpus, index = out / "rows.jsonl", out / "corpus.jsonl", out / "index"
    with source.open(encoding="utf-8") as lines:
        given = [json.loads(line) for line, _ in zip(lines, range(ROWS), strict=False)]
    short = [{**row, "passages": row["passages"][:PASSAGES]} for row in given]
    rows.write_text("".join(json.dumps(row) + "\n" for row in short), encoding="utf-8")
    passages = {one["text"]: one for row in short for one in row["passages"]}
    corpus.write_text(
        "".join(json.dumps(one) + "\n" for one in passages.values()), encoding="utf-8"
    )
    fitrag(f"index {corpus} {index}")
    for name, verb in VERBS.items():
        began = time.perf_counter()
        verb = verb.format(rows=rows, corpus=corpus, index=index)
        fitrag(f"{verb} {out / name}.jsonl")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


def fitrag(arguments: str) -> None:
    """Run the command line in a process of its own."""
    first, *rest = arguments.split()
    command = [sys.executable, "-m", "fitrag_integrations.cli", first, *_placed(first, rest)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments}\n{done.stderr[-2000:]}")


def _placed(verb: str, rest: list[str]) -> list[str]:
    """Put the output, which stands last, behind the input."""
    return rest if verb == "index" else [rest[0], rest[-1], *rest[1:-1]]


def compare(old: Path, new: Path) -> bool:
    """Print the differences of two runs; return whether all rows have equal fields and texts."""
    same = True
    for name in VERBS:
        files = [(folder / name).with_suffix(".jsonl").read_text() for folder in (old, new)]
        if files[0] == files[1]:
            print(f"{name}: equal to the byte")
            continue
        rows = [[json.loads(line) for line in text.splitlines()] for text in files]
        found = [difference(a, b) for a, b in zip_longest(*rows)]
        other = [at for at, each in enumerate(found) if each == float("inf")]
        same = same and not other
        numbers = [each for each in found if each != float("inf")]
        print(
            f"{name}: {sum(each > 0 for each in found)} of {len(found)} rows differ, numbers by "
            f"{max(numbers, default=0):.1e} at most, fields or texts in rows {other[:5]}"
        )
    return same


def difference(a: Any, b: Any) -> float:
    """Return the largest difference of two numbers in equal places; infinity for anything else."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return max((difference(a[key], b[key]) for key in a), default=0.0)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return max(map(difference, a, b), default=0.0)
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b)
    return 0.0 if a == b else float("inf")


if __name__ == "__main__":
    main()
