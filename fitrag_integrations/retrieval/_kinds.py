"""The kinds of FAISS index: exact, half the size, by clusters, by a graph."""

from __future__ import annotations

import math
import sys
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
QUERIES = 8  # of a search that gains
VECTORS = 2**15, 2**21  # of an index that gains, and of one whose copy is too large
FASTER = 1.5  # times that bfloat16 has to be as fast as float32
MORE = 100  # candidates beside the best k, or as many as these
ROUNDING = 3 * 2**-9  # of the product of two lengths: of both factors, and of the sum


def checked_kind(name: str) -> Kind:
    """Return the kind of a name; raises `InputError` for another."""
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


def products_of(flat: Any, kind: Kind) -> Products | None:
    """Prepare a flat index for many queries; None where nothing is gained, or torch not in use."""
    least, most = VECTORS
    if kind != "flat" or not least <= flat.ntotal <= most or "torch" not in sys.modules:
        return None
    import torch

    from fitrag_integrations.models.encoder.on_cpu import rate

    quick = rate(torch.bfloat16) >= FASTER * rate(torch.float32)
    return Products(flat) if quick else None


class Products:
    """Search a flat index for many queries at once, by one product in bfloat16.

    On a CPU that is fast in it this is several times as fast as FAISS's own search.
    The best by rounded numbers are scored again in float32; a query for which something that was
    left out might have been among the best is searched by FAISS. Vectors are held a second time,
    in half the size; good until some are added.
    """

    def __init__(self, flat: Any) -> None:
        import torch

        count = flat.ntotal
        held = faiss().rev_swig_ptr(flat.get_xb(), count * flat.d).reshape(count, flat.d)
        self._flat, self._exact = flat, torch.from_numpy(held)
        self._half = self._exact.bfloat16()
        self._longest = float(self._exact.norm(dim=1).max())

    def nearest(self, vectors: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
        """Return the scores and places of the best `k` for each vector, the first of equals
        first.
        """
        import torch

        asked = torch.from_numpy(vectors)
        rough, among = (asked.bfloat16() @ self._half.T).topk(
            min(self._flat.ntotal, k + max(k, MORE)), dim=1
        )
        exact = torch.bmm(self._exact[among], asked.unsqueeze(2)).squeeze(2).numpy()
        order = np.lexsort((among.numpy(), -exact))[:, :k]
        scores = np.take_along_axis(exact, order, 1)
        places = np.take_along_axis(among.numpy(), order, 1)
        room = ROUNDING * self._longest * np.linalg.norm(vectors, axis=1)
        unsure = rough[:, -1].float().numpy() + room >= scores[:, -1]
        if among.shape[1] < self._flat.ntotal and unsure.any():
            scores[unsure], places[unsure] = self._flat.search(vectors[unsure], k)
        return scores, places
