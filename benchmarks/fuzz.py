"""Fuzz every parser, guided by coverage, and keep the inputs that reach something new.

    pip install atheris
    python benchmarks/fuzz.py [NAME ...] [--share 1.0] [--out benchmarks/results/fuzz.json]

The readers are those of `tests/fuzz/targets.py`, the inputs found are kept in
`tests/fuzz/corpus.jsonl.gz`, which the tests read again. A target runs in a process of its own, for
as many executions as `THOUSANDS` has, times `--share`; an input that raises, takes over a second of
CPU or over 2 GB of memory ends it and is told. Ends with 1 where there was any.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[1]
CORPUS = HOME / "tests" / "fuzz" / "corpus.jsonl.gz"
SECONDS, LONGEST = 1.0, 2048  # of CPU an input may take; bytes of one
KEPT, SMALL = 100, 400  # inputs kept of a target, and bytes of one that is
THOUSANDS = {
    **{"sentences": 60, "written": 50, "rows": 30, "ranked": 20, "resumed": 40, "journal": 60},
    **{"loaders": 60, "files": 20, "llm_replies": 80, "json_replies": 80, "searches": 40},
    "requests": 40,
    **{"models": 30, "folders": 20, "thresholds": 40, "addresses": 40, "pages": 12},
    **{"cleaning": 500, "shown": 250, "answers": 300, "keys": 400, "rerank_replies": 400},
    **{"tensors": 500, "robots": 1000, "styles": 1000, "headers": 800},
}
DONE = re.compile(r"Done (\d+) runs in (\d+) second")
REACHED = re.compile(r"cov: (\d+) ft: (\d+)")


def main() -> int:
    """Fuzz the targets named, or one here where `--target` says so."""
    if sys.argv[1:2] == ["--target"]:
        fuzz_here(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    told: list[dict[str, Any]] = []
    report: dict[str, Any] = {}
    for name in args.names or THOUSANDS:
        told.append(fuzzed(name, args.share))
        report = {"executions": sum(one["executions"] for one in told), "targets": told}
        if args.out:
            args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{report['executions']:,} executions, {sum('input' in one for one in told)} failed")
    return int(any("input" in one for one in told))


def fuzz_here(name: str, options: list[str]) -> None:
    """Hand one target to libFuzzer, which ends the process."""
    import atheris

    sys.path.insert(0, str(HOME / "tests" / "fuzz"))
    with atheris.instrument_imports(include=["fitrag_integrations"]):
        from targets import TARGETS

    read = TARGETS[name]

    def timed(data: bytes) -> None:
        began = time.thread_time()
        read(data)
        assert time.thread_time() - began < SECONDS, "too slow"

    atheris.Setup([sys.argv[0], *options], timed)
    atheris.Fuzz()


def fuzzed(name: str, share: float) -> dict[str, object]:
    """Fuzz one target in a process of its own, and keep what it found."""
    memory = "/dev/shm"  # some targets read files: where there is such a disk, they are in memory
    with tempfile.TemporaryDirectory(dir=memory if Path(memory).is_dir() else None) as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for at, data in enumerate([*seeds(name), *kept().get(name, [])]):
            (corpus / str(at)).write_bytes(data)
        limits = [f"-runs={int(1000 * share * THOUSANDS[name])}", f"-max_len={LONGEST}"]
        limits += ["-timeout=300", "-report_slow_units=300", "-rss_limit_mb=2048", "-seed=1"]
        places = [f"-artifact_prefix={folder}/", str(corpus)]
        began = time.monotonic()
        run = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--target", name, *limits, *places],
            capture_output=True,
            env={**os.environ, "TMPDIR": folder, "PYTHONPATH": str(HOME)},
            check=False,
        )
        said = (run.stderr + run.stdout).decode("utf-8", "replace")
        found = [path.read_bytes() for path in corpus.iterdir()]
        failed = [p.read_bytes() for p in Path(folder).iterdir() if p.is_file()]
    keep(name, found)
    done, reached = DONE.search(said), REACHED.findall(said)
    told: dict[str, object] = {
        "target": name,
        "executions": int(done[1]) if done else 0,
        "seconds": round(time.monotonic() - began),
        "edges": int(reached[-1][0]) if reached else 0,
        "inputs": len(found),
    }
    if run.returncode:
        told |= {"input": [repr(data) for data in failed], "said": said[-2000:]}
    print(json.dumps(told), flush=True)
    return told


def seeds(name: str) -> list[bytes]:
    """Give what a target begins with."""
    sys.path.insert(0, str(HOME / "tests" / "fuzz"))
    from examples import SEEDS

    return [text.encode("utf-8") for text in SEEDS.get(name, [])]


def kept() -> dict[str, list[bytes]]:
    """Read the inputs that are kept, by target."""
    found: dict[str, list[bytes]] = {}
    if CORPUS.exists():
        for line in gzip.decompress(CORPUS.read_bytes()).splitlines():
            name, text = json.loads(line)
            found.setdefault(name, []).append(base64.b64decode(text))
    return found


def keep(name: str, inputs: list[bytes]) -> None:
    """Keep the smallest inputs of a target in place of those that are there."""
    small = sorted((data for data in inputs if len(data) <= SMALL), key=lambda d: (len(d), d))
    every = len(small) / KEPT if len(small) > KEPT else 1.0
    spread = [small[int(at * every)] for at in range(min(len(small), KEPT))]
    whole = {**kept(), name: spread}
    lines = [
        json.dumps([each, base64.b64encode(data).decode()]) + "\n"
        for each in sorted(whole)
        for data in whole[each]
    ]
    CORPUS.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    sys.exit(main())
