"""Parts of speed.py: how time and memory grow with the passages, and with the vectors searched."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from turns import CHARACTERS, Row, in_turns, pairs_of, spread

from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.light.models import LightScorer
from fitrag_integrations.retrieval import _store
from fitrag_integrations.types import Passage

SIZES = (10, 100, 1000, 10_000)
WIDTH, HIDDEN, QUERIES, WANTED = 384, 32, 20, 10
MANY, AMONG, BEST = 64, 100_000, 100
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(field: str) -> float:
    """Read a field of this process's memory, in MB."""
    (line,) = (each for each in STATUS.read_text().splitlines() if each.startswith(field))
    return int(line.split()[1]) / 1024


def passages(args: argparse.Namespace) -> list[Row]:
    """Score requests of many sizes, of shorter passages, and take the most memory beside each.

    The largest is scored by each engine.
    """
    made: dict[str, Callable[[], Any]] = {
        f", {engine}": partial(BiLabelScorer.embedded, device="cpu", backend=engine, dtype=dtype)
        for engine, dtype in (("torch", "float32"), ("onnx", "auto"), ("openvino", "auto"))
    }
    made = {"": partial(BiLabelScorer.embedded, device="cpu"), **made, ", bundled": LightScorer}
    rows = []
    for name, make in made.items():
        scorer = make()
        scorer.score(pairs_of(100, CHARACTERS // 4, seed=1))
        for count in SIZES if not name else SIZES[-1:]:
            pairs = pairs_of(count, CHARACTERS // 4)
            before = 0.0
            if CLEAR.exists():
                CLEAR.write_text("5")  # the highest use so far is forgotten
                before = memory("VmRSS")
            job = {"": lambda one=scorer, some=pairs: one.score(some)}
            (row,) = in_turns(job, 1, "", warm=False)  # type: ignore[arg-type]
            row = {"what": f"{count:,} passages{name}", "passages": count, "ms": row["ms"]}
            row["ms each"] = row["ms"] / count
            peak = max(0.0, memory("VmHWM") - before)  # an earlier engine may have left more
            rows.append(row | ({"peak MB": peak} if before else {}))
            print(rows[-1], flush=True)
        if hasattr(scorer, "unload"):
            scorer.unload()
    return rows


def index(args: argparse.Namespace) -> list[Row]:
    """Search random vectors of 32 hidden numbers by each kind of index, one query at a time."""
    rows = []
    for count in (10**n for n in range(3, 7) if 10**n <= args.vectors):
        drawn = drawn_vectors(count + QUERIES, args.seed)
        vectors, queries = drawn[:count], drawn[count:]
        exact: list[set[int]] = []
        for kind in _store.KINDS:
            began = time.process_time()
            made = _store.empty(kind, WIDTH)
            made.add(vectors)
            built, times, found = time.process_time() - began, [], []
            for query in queries:
                began = time.process_time()
                found.append(set(made.search(query[None], WANTED)[1][0].tolist()))
                times.append(time.process_time() - began)
            exact = exact or found
            right = sum(len(a & b) for a, b in zip(found, exact, strict=True))
            row = {"what": f"{kind}, {count:,} vectors", "kind": kind, "vectors": count}
            row |= spread(times) | {"build s": built, "of flat's ten": right / QUERIES / WANTED}
            rows.append(row)
            print(row, flush=True)
    return rows


def drawn_vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Draw vectors of length 1 of a few hidden numbers."""
    chance = np.random.default_rng(seed)
    spanned = chance.standard_normal((HIDDEN, WIDTH), dtype=np.float32)
    drawn = chance.standard_normal((count, HIDDEN), dtype=np.float32) @ spanned
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def queries(args: argparse.Namespace) -> list[Row]:
    """Search for many queries at once: FAISS, and the store that ships over the same vectors."""
    drawn = drawn_vectors(AMONG + MANY, args.seed)
    vectors, asked = drawn[:AMONG], drawn[AMONG:]
    store = _store.Store.empty(WIDTH)
    store.add([Passage(str(i), "text") for i in range(AMONG)], vectors)
    found: dict[str, list[list[str]]] = {}

    def faiss() -> None:
        _, places = store.flat.search(asked, BEST)
        found["faiss"] = [list(map(str, row)) for row in places.tolist()]

    def shipped() -> None:
        found["shipped"] = [[p.id for p in row] for row in store.nearest(asked, BEST)]

    name = f"FAISS, {MANY} queries, best {BEST} of {AMONG:,}"
    rows = in_turns({name: faiss, "the store that ships": shipped}, args.repeats, name)
    both = list(zip(found["faiss"], found["shipped"], strict=True))
    return [
        *rows,
        {"what": "queries with equal ids", "value": sum(set(a) == set(b) for a, b in both)},
        {"what": "of these in equal order", "value": sum(a == b for a, b in both)},
    ]
