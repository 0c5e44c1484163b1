"""The kinds of FAISS index: exact, half the size, by clusters, by a graph."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.retrieval._vectors import Vectors

Kind = Literal["flat", "fp16", "ivf", "hnsw"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MARKS: dict[Kind, bytes] = {"flat": b"IxFI", "fp16": b"IxSQ", "ivf": b"IwFl", "hnsw": b"IHNf"}
"""By what FAISS begins a file of each."""
LINKS, BUILD_WIDTH, SEARCH_WIDTH = 32, 100, 128  # of a graph (Malkov and Yashunin, 2016)
PROBED = 8  # a share of one in so many clusters is searched, and as many clusters at least
SEED = 13


def checked_kind(name: str) -> Kind:
    """Give the kind of a name; raises `InputError` for another."""
    for kind in KINDS:
        if kind == name:
            return kind
    raise InputError.of("kind", given=name, allowed=", ".join(KINDS))


def faiss() -> Any:
    """Import FAISS."""
    return require_extra("faiss", extra="faiss", feature="FaissIndex")


def empty(kind: Kind, width: int) -> Any:
    """Make an index of inner products without vectors; "ivf" gets its clusters with the first."""
    home = faiss()
    if kind == "fp16":
        quantizer = home.ScalarQuantizer.QT_fp16
        return home.IndexScalarQuantizer(width, quantizer, home.METRIC_INNER_PRODUCT)
    if kind == "hnsw":
        made = home.IndexHNSWFlat(width, LINKS, home.METRIC_INNER_PRODUCT)
        made.hnsw.efConstruction = BUILD_WIDTH
        return made
    return home.IndexFlatIP(width)


def add(index: Any, kind: Kind, vectors: Vectors) -> Any:
    """Add vectors and give the index, which is a new one where clusters are made of the first."""
    if kind == "ivf" and not index.ntotal:
        home = faiss()
        index = home.index_factory(
            index.d, f"IVF{round(math.sqrt(len(vectors)))},Flat", home.METRIC_INNER_PRODUCT
        )
        index.cp.seed = SEED
        index.cp.min_points_per_centroid = 1  # a small corpus has few; FAISS would warn
        index.train(vectors)
        index.set_direct_map_type(home.DirectMap.Array)  # by which vectors are read again
    index.add(vectors)
    return index


def nearest(index: Any, kind: Kind, vectors: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
    """Search: scores and places, -1 where an approximate kind found fewer than `k`."""
    home = faiss()
    if kind == "hnsw":
        how = home.SearchParametersHNSW(efSearch=max(SEARCH_WIDTH, 2 * k))
        return index.search(vectors, k, params=how)  # type: ignore[no-any-return]
    if kind == "ivf" and index.ntotal:
        probed = min(index.nlist, max(PROBED, index.nlist // PROBED))
        how = home.SearchParametersIVF(nprobe=probed)
        return index.search(vectors, k, params=how)  # type: ignore[no-any-return]
    return index.search(vectors, k)  # type: ignore[no-any-return]
