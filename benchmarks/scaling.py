"""Parts of speed.py: how time and memory grow with the passages, and with the vectors searched."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from turns import CHARACTERS, Row, in_turns, pairs_of, spread

from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.retrieval import _store

SIZES = (10, 100, 1000, 10_000)
WIDTH, HIDDEN, QUERIES, WANTED = 384, 32, 20, 10
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(field: str) -> float:
    """Read a field of this process's memory, in MB."""
    (line,) = (each for each in STATUS.read_text().splitlines() if each.startswith(field))
    return int(line.split()[1]) / 1024


def passages(args: argparse.Namespace) -> list[Row]:
    """Score requests of many sizes, of shorter passages, and take the most memory beside each."""
    scorer, rows = BiLabelScorer.embedded(device="cpu"), []
    scorer.score(pairs_of(100, CHARACTERS // 4, seed=1))
    for count in SIZES:
        pairs = pairs_of(count, CHARACTERS // 4)
        before = 0.0
        if CLEAR.exists():
            CLEAR.write_text("5")  # the highest use so far is forgotten
            before = memory("VmRSS")
        (row,) = in_turns({"": lambda some=pairs: scorer.score(some)}, 1, "", warm=False)  # type: ignore[misc]
        row = {"what": f"{count:,} passages", "passages": count, "ms": row["ms"]}
        row["ms each"] = row["ms"] / count
        rows.append(row | ({"peak MB": memory("VmHWM") - before} if before else {}))
    scorer.unload()
    return rows


def index(args: argparse.Namespace) -> list[Row]:
    """Search random vectors of 32 hidden numbers by each kind of index, one query at a time."""
    rows = []
    for count in (10**n for n in range(3, 7) if 10**n <= args.vectors):
        chance = np.random.default_rng(args.seed)
        spanned = chance.standard_normal((HIDDEN, WIDTH), dtype=np.float32)
        drawn = chance.standard_normal((count + QUERIES, HIDDEN), dtype=np.float32) @ spanned
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        vectors, queries = drawn[:count], drawn[count:]
        exact: list[set[int]] = []
        for kind in _store.KINDS:
            began = time.process_time()
            made = _store.add_to(_store.empty(kind, WIDTH), kind, vectors)
            built, times, found = time.process_time() - began, [], []
            for query in queries:
                began = time.process_time()
                found.append(set(_store.search(made, kind, query[None], WANTED)[1][0].tolist()))
                times.append(time.process_time() - began)
            exact = exact or found
            right = sum(len(a & b) for a, b in zip(found, exact, strict=True))
            row = {"what": f"{kind}, {count:,} vectors", "kind": kind, "vectors": count}
            row |= spread(times) | {"build s": built, "of flat's ten": right / QUERIES / WANTED}
            rows.append(row)
            print(row, flush=True)
    return rows
