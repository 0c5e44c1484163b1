"""Score rows in two plain processes, a shard each, and by two workers of Ray: how fast is each?

    pip install "fitrag-integrations[ray,offline]"
    python benchmarks/scale_out.py [--rows 320] [--passages 10] [--times 3] [--kill]

Rows are questions of the demo with some of its passages each, drawn by a seed; the scorer is the
embedded one, with one thread a process, and Ray's workers, which are niced otherwise, have the
priority of the plain ones. A rate is that of the rows between the first tenth of an output and the
last, so that neither starting nor ending counts, told by the clock and, since a machine may have
more to do, by the processor time of all the processes of a way; the two ways take turns. All
outputs are compared with that of one process. `--kill` has a worker die by SIGKILL in mid-job, then
the process itself, half-way, and then begins it again; it compares, and measures nothing. The
figures go to `results/scale-out.json`, with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from speed import machine

from fitrag_integrations.core.jsonl import read_jsonl, write_jsonl

DEMO = Path(__file__).parents[1] / "fitrag_integrations" / "embedded" / "demo"
RESULTS = Path(__file__).parent / "results" / "scale-out.json"
SEED = 13
RAY = ("--engine", "ray", "--workers", "2")


def draw(path: Path, count: int, passages_each: int) -> None:
    """Write the rows."""
    chance, passages = random.Random(SEED), list(read_jsonl(DEMO / "passages.jsonl"))
    questions = [row["question"] for row in read_jsonl(DEMO / "questions.jsonl")]
    rows = [
        {
            "id": number,
            "question": questions[number % len(questions)],
            "passages": [
                {"title": one["title"], "text": one["text"]}
                for one in chance.sample(passages, passages_each)
            ],
        }
        for number in range(count)
    ]
    write_jsonl(path, rows)


def begin(given: Path, made: Path, *how: str) -> subprocess.Popen[bytes]:
    """Start `fitrag score` on one thread."""
    words = [sys.executable, "-m", "fitrag_integrations.cli", "score", given, made, "--quiet", *how]
    alone = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RAY_worker_niceness": "0"}
    return subprocess.Popen(words, env={**os.environ, **alone})


def lines(paths: list[Path]) -> list[bytes]:
    """Give all lines of some outputs, sorted."""
    return sorted(one for path in paths if path.exists() for one in path.read_bytes().splitlines())


def rate(given: Path, made: list[Path], how: list[tuple[str, ...]], count: int) -> dict[str, float]:
    """Run side by side, and give rows a second in the midst and all seconds."""
    began, seen = time.monotonic(), []
    runs = [begin(given, path, *each) for path, each in zip(made, how, strict=True)]
    while any(run.poll() is None for run in runs):
        used = sum(cpu_seconds(run.pid) for run in runs)
        seen.append((time.monotonic(), used, len(lines(made))))
        time.sleep(0.2)
    assert all(run.returncode == 0 for run in runs)
    first = next(at for at in seen if at[2] >= count / 10)
    last = next((at for at in seen if at[2] >= 0.9 * count), seen[-1])
    seconds, used, rows = (late - early for late, early in zip(last, first, strict=True))
    return {
        "rows_a_second": rows / seconds,
        "rows_a_second_of_a_core": rows / used,
        "seconds": time.monotonic() - began,
    }


def cpu_seconds(top: int) -> float:
    """Add up what a process and those below it that live have used of the processors."""
    told = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        told[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    below, used = {top}, 0.0
    for pid in sorted(told):  # a child is younger than its parent
        if pid in below or told[pid][0] in below:
            below.add(pid)
            used += told[pid][1]
    return used / os.sysconf("SC_CLK_TCK")


def same(given: list[bytes], made: list[bytes]) -> str:
    """Say how equal two outputs are, in whatever order."""
    if sorted(given) == sorted(made):
        return "to the byte"
    told = [{row["id"]: row["scores"] for row in map(json.loads, rows)} for rows in (given, made)]
    assert told[0].keys() == told[1].keys() and len(given) == len(made), "other rows"
    most = max(
        abs(one[label] - other[label])
        for key in told[0]
        for one, other in zip(told[0][key], told[1][key], strict=True)
        for label in one
    )
    return f"to {most:.1g}"


def compare(folder: Path, count: int, each: int, times: int) -> dict[str, object]:
    """Take turns between the two ways."""
    given, whole = folder / "in.jsonl", folder / "whole.jsonl"
    draw(given, count, each)
    one = rate(given, [whole], [()], count)
    found: dict[str, list[dict[str, float]]] = {"two processes": [], "ray": []}
    equal = dict[str, str]()
    for turn in range(times):
        parts = [folder / f"{turn}.{part}.jsonl" for part in (0, 1)]
        found["two processes"].append(
            rate(given, parts, [("--shard", "0/2"), ("--shard", "1/2")], count)
        )
        equal["two processes"] = same(lines([whole]), lines(parts))
        over = folder / f"{turn}.ray.jsonl"
        found["ray"].append(rate(given, [over], [RAY], count))
        equal["ray"] = "in order, to the byte"
        assert over.read_bytes() == whole.read_bytes(), "Ray gave another output"
    medians = {
        what: {way: statistics.median(run[what] for run in runs) for way, runs in found.items()}
        for what in ("rows_a_second", "rows_a_second_of_a_core")
    }
    return {
        "rows": count,
        "passages a row": each,
        "one process": one,
        **found,
        "equal to one process": equal,
        "medians": medians,
        "ray against two processes": {
            what: told["ray"] / told["two processes"] for what, told in medians.items()
        },
    }


def killed(folder: Path, count: int, each: int) -> str:
    """Kill a worker, then the run, begin it again, and compare with a run in one go."""
    given, whole, made = (folder / f"{name}.jsonl" for name in ("in", "whole", "made"))
    draw(given, count, each)
    assert begin(given, whole).wait() == 0
    run = begin(given, made, *RAY)
    wait(made, count // 6, run)
    before = workers(run.pid)
    os.kill(before[0], signal.SIGKILL)
    wait(made, count // 2, run)
    at = len(lines([made]))
    run.kill()
    run.wait()
    assert begin(given, made, *RAY).wait() == 0
    assert made.read_bytes() == whole.read_bytes(), "another output"
    return (
        f"a worker of {len(before)} killed, the run killed at {at} of {count} rows: the same bytes"
    )


def wait(made: Path, count: int, run: subprocess.Popen[bytes]) -> None:
    """Wait until an output has so many rows."""
    while len(lines([made])) < count and run.poll() is None:
        time.sleep(0.05)


def workers(driver: int) -> list[int]:
    """Find the processes that answer lots, among those younger than the run."""
    found = subprocess.run(["pgrep", "-f", "ray::MapWorker"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split() if int(pid) > driver]


def main() -> None:
    """Measure, or kill."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--passages", type=int, default=10)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--kill", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.kill:
            print(killed(Path(folder), args.rows, args.passages))
            return
        load = os.getloadavg()[0]
        told = compare(Path(folder), args.rows, args.passages, args.times)
    told = {"machine": machine(), "load before": load, **told}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
