"""Kill long verbs at random moments, and let them go on: is a row lost, doubled or torn?

    python benchmarks/killed.py [VERB ...] [--kills 100] [--seed 0] [--out FILE]

A verb runs in a child process over a little world of its own with the models that ship. It is
killed (SIGKILL) at a random moment of its time, and the same command is given again until it ends;
then it begins anew. After each kill every whole line of the output has to be that of a run in one
go, and at each end all files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from fitrag_integrations import cli
from fitrag_integrations.core.jsonl import write_jsonl

PLACES = ("Oslo", "Lima", "Cairo", "Quito", "Hanoi")
NAMES = [f"Person{at} Name{at}" for at in range(40)]
BORN = {name: PLACES[at % len(PLACES)] for at, name in enumerate(NAMES)}
DULL = "The weather of that year was mild and nobody had much to say about it. "
TEXTS = {name: f"{DULL}{name} was born in {BORN[name]}." for name in NAMES}
CLOCKS = re.compile(rb'"(seconds|ms|time)": ?[0-9.e-]+')
LONG = re.compile(rb"\d\.\d{5,}")
ROWS, READS = "out.jsonl", "{home}/rows.jsonl {to}/out.jsonl"
COMMANDS = {  # what is run, and the files that are compared
    **{verb: (f"{verb} {READS}", (ROWS,)) for verb in ("score", "route", "compress", "read")},
    "retrieve": (f"retrieve {READS} --index {{home}}/index", (ROWS,)),
    "answer": (f"answer {READS}", (ROWS,)),
    "index": ("index {home}/corpus.jsonl {to}", ("index.faiss", "passages.jsonl")),
}


def main() -> int:
    """Kill the verbs and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("verbs", nargs="*", default=list(COMMANDS))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rows = [row_of(at) for at in range(80)]
        write_jsonl(home / "rows.jsonl", rows)
        write_jsonl(home / "corpus.jsonl", [{"id": n, "text": TEXTS[n]} for n in NAMES])
        run("index", home, home / "index")
        for at, verb in enumerate(args.verbs):
            kills = (args.kills + at) // len(args.verbs)  # which add up to all of them
            found[verb] = killed(verb, home, kills, random.Random(f"{args.seed} {verb}"))
            print(json.dumps({verb: found[verb]}), flush=True)
            if args.out:
                args.out.write_text(
                    json.dumps({"seed": args.seed, "verbs": found}, indent=1) + "\n"
                )
    return int(any(one["wrong"] for one in found.values()))


def killed(verb: str, home: Path, kills: int, chance: random.Random) -> dict[str, object]:
    """Kill one verb so often; returns what was found wrong in any of its files."""
    whole, again = (home / verb / name / "made" for name in ("whole", "again"))
    run(verb, home, whole)
    began = time.monotonic()
    assert child(verb, home, again) == 0
    shutil.rmtree(again)
    span, hits, ends, wrong = time.monotonic() - began, 0, 0, set[str]()
    while hits < kills or not ends or again.exists():
        code = child(verb, home, again, chance.uniform(0.02, 1.0) * span if hits < kills else None)
        if code is None:
            written, expected = again / ROWS, (whole / ROWS)
            lines = plain(written).splitlines(keepends=True) if written.exists() else []
            lines = [line for line in lines if line.endswith(b"\n")]
            if lines and lines != plain(expected).splitlines(keepends=True)[: len(lines)]:
                wrong.add(f"{ROWS}, as it was killed")
            hits, span = hits + 1, 1.2 * span
            continue
        if code:
            wrong.add(f"exit {code}")
        else:
            names, moved = COMMANDS[verb][1], (bytes(again), bytes(whole))
            wrong |= {n for n in names if plain(whole / n) != plain(again / n).replace(*moved)}
        ends, span = ends + 1, 0.7 * span  # other times on a busy machine
        shutil.rmtree(again)
    return {"kills": hits, "ends": ends, "wrong": sorted(wrong)}


def child(verb: str, home: Path, folder: Path, seconds: float | None = None) -> int | None:
    """Run a verb in a process of its own; returns the exit code, None where it was killed."""
    process = get_context("spawn").Process(target=run, args=(verb, home, folder))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def run(verb: str, home: Path, to: Path) -> None:
    """Run a verb into a folder; what it prints goes nowhere."""
    to.mkdir(parents=True, exist_ok=True)
    if verb == "index" and (to / "manifest.json").exists():
        return  # an index is written whole, and refuses to be written again
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        try:
            cli.main([word.format(home=home, to=to) for word in COMMANDS[verb][0].split()])
        except SystemExit as end:
            if end.code:
                raise


def plain(path: Path) -> bytes:
    """Read a file without clocks and last digits, which depend on a batch's other rows."""
    rounded = CLOCKS.sub(b"", path.read_bytes())
    return LONG.sub(lambda one: b"%.4f" % float(one[0]), rounded)


def row_of(at: int) -> dict[str, object]:
    """Ask where somebody was born, with the passage that says so and another."""
    name, other = NAMES[at % len(NAMES)], NAMES[(at - 1) % len(NAMES)]
    passages = [{"text": TEXTS[other]}, {"text": TEXTS[name]}]
    return {"question": f"Where was {name} born?", "id": at, "passages": passages}


if __name__ == "__main__":
    sys.exit(main())
