"""Build an index of random vectors on disk, in a process that is killed once and begun anew.

    python benchmarks/growing_index.py [--count 1000000] [--width 384]

Says the seconds and the most memory of the build, the seconds of a search for one and for 64
queries, and whether each query finds its own vector.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from fitrag_integrations import Passage
from fitrag_integrations.retrieval import GrowingIndex

QUERIES = 64


class Drawn:
    """Give each number its own random vector of length 1."""

    name = "drawn"

    def __init__(self, width):
        self.width = width

    def encode(self, texts):
        found = np.stack(
            [
                np.random.Generator(np.random.SFC64(int(t))).standard_normal(
                    self.width, dtype=np.float32
                )
                for t in texts
            ]
        )
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def build(folder, count, width):
    """Build, or go on; the last line says seconds and megabytes."""
    began, index = time.monotonic(), GrowingIndex(folder, Drawn(width))
    index.add(Passage(str(i), str(i)) for i in range(count))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(index)} vectors, {time.monotonic() - began:.0f} s, at most {most:.0f} MB", flush=True
    )
    rows = np.random.default_rng(7).integers(0, count, QUERIES)
    for size in (1, QUERIES):
        began = time.monotonic()
        found = index.search([str(i) for i in rows[:size]], 10)
        right = sum(row[0].id == str(i) for row, i in zip(found, rows, strict=False))
        print(f"{size} queries: {time.monotonic() - began:.2f} s, {right} find their own")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"with the vectors mapped for the search, at most {most:.0f} MB")


def main():
    """Start, kill half-way, and start again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--folder")
    asked = parser.parse_args()
    if asked.folder:
        build(asked.folder, asked.count, asked.width)
        return
    with tempfile.TemporaryDirectory() as folder:
        how = [sys.executable, __file__, "--folder", folder]
        how += ["--count", str(asked.count), "--width", str(asked.width)]
        first = subprocess.Popen(how)
        index = None
        while index is None or len(index) < asked.count // 2:
            time.sleep(1)
            index = GrowingIndex(folder, Drawn(asked.width))
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        print(
            f"killed at {len(index)}, which a search finds: {len(index.search(['1'], 3)[0])} of 3"
        )
        subprocess.run(how, check=True)


if __name__ == "__main__":
    main()
