"""Passages and their vectors side by side, over a flat FAISS index."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.retrieval import _kinds
from fitrag_integrations.retrieval._kinds import QUERIES, Kind, Products, products_of
from fitrag_integrations.retrieval._vectors import Vectors
from fitrag_integrations.types import Passage

ON_BAD = ("raise", "skip")
MOST_ON_GPU = 2048  # neighbours that FAISS finds there in one search


class Store:
    """Passages by row, searched and extended from any thread."""

    def __init__(self, flat: Any, passages: Sequence[Passage] = (), *, kind: Kind = "flat") -> None:
        self.flat = flat
        self.kind = kind
        self.fixed = False  # vectors that are read where they lie on disk
        self._searched: Any = None  # a copy on a GPU, or the same
        self._products: Products | None = None  # for many queries, while that is the same
        self.passages = list(passages)
        self._by_id = {passage.id: passage for passage in passages}
        self._lock = threading.Lock()  # faiss moves its vectors when some are added

    @classmethod
    def empty(cls, width: int, kind: Kind = "flat") -> Store:
        """Start without passages."""
        return cls(_kinds.empty(kind, width), kind=kind)

    @property
    def width(self) -> int:
        """Count the numbers of a vector."""
        return int(self.flat.d)

    @property
    def by_id(self) -> Mapping[str, Passage]:
        """Look passages up by id."""
        return self._by_id

    def add(self, passages: Sequence[Passage], vectors: Vectors) -> None:
        """Append passages. Shape: vectors (n, width)."""
        if self.fixed:
            allowed = "an index loaded with memory_map=False"
            raise InputError.of("index", given="one that is mapped from disk", allowed=allowed)
        with self._lock:
            self.flat = _kinds.add(self.flat, self.kind, vectors)
            self._searched = self._products = None
            self.passages.extend(passages)
            self._by_id.update((passage.id, passage) for passage in passages)

    def first(self, count: int | None = None) -> tuple[list[Passage], Vectors]:
        """Return the first passages, or all, with their vectors."""
        with self._lock:
            passages = self.passages[:count]
            return passages, self.flat.reconstruct_n(0, len(passages))

    def nearest(self, vectors: Vectors, k: int) -> list[list[Passage]]:
        """Return the best k passages for each vector, with their scores in the metadata."""
        if not len(self):
            return [[] for _ in vectors]
        with self._lock:
            most = min(k, self.flat.ntotal)
            if self._searched is None:
                self._searched = self.flat if self.fixed else on_gpu(self.flat, self.kind)
            scores, places = self._found(vectors, most)
        return [
            [_scored(self.passages[at], score) for at, score in zip(*row, strict=True) if at >= 0]
            for row in zip(places.tolist(), scores.tolist(), strict=True)
        ]

    def _found(self, vectors: Vectors, most: int) -> tuple[Vectors, NDArray[np.int64]]:
        """Search by whatever is quickest for so many vectors."""
        if self._searched is self.flat and not self.fixed and len(vectors) >= QUERIES:
            self._products = self._products or products_of(self.flat, self.kind)
            if self._products is not None:
                return self._products.nearest(vectors, most)
        searched = self._searched if most <= MOST_ON_GPU else self.flat
        return _kinds.nearest(searched, self.kind, vectors, most)

    def __len__(self) -> int:
        return len(self.passages)

    def __getstate__(self) -> dict[str, object]:
        passages, vectors = self.first()
        settings = {"width": self.width, "kind": self.kind}
        return {**settings, "passages": passages, "vectors": vectors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kind = state["kind"]
        self.__init__(_kinds.empty(kind, state["width"]), kind=kind)  # type: ignore[misc]
        if state["passages"]:
            self.add(state["passages"], state["vectors"])


def _scored(passage: Passage, score: float) -> Passage:
    return replace(passage, metadata={**passage.metadata, "retrieval_score": score})


def on_gpu(flat: Any, kind: Kind) -> Any:
    """Copy a flat index to a GPU where this build of FAISS has one; else give it as it is.

    Vectors are held in float32 as on the CPU, so that scores are the same but for rounding.
    """
    faiss = _faiss()
    if kind != "flat" or not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        return flat
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, flat)


def _faiss() -> Any:
    return require_extra("faiss", extra="faiss", feature="FaissIndex")


def admit(
    passages: Iterable[Any], *, stored: Mapping[str, Passage], on_bad: str
) -> tuple[list[Passage], int]:
    """Return the passages that are new, in order, and how many were skipped as bad.

    Bad are blank texts, items that are no `Passage`, errors that `read_corpus` was asked to
    yield, and an id that another text has. An equal id with an equal text is the same passage and
    the first one stays. With `on_bad="raise"` the first bad one raises its `InputError`.
    """
    if on_bad not in ON_BAD:
        raise InputError.of("on_bad", given=on_bad, allowed=" or ".join(map(repr, ON_BAD)))
    if isinstance(passages, str | bytes | Mapping | Passage) or not isinstance(passages, Iterable):
        raise InputError.of("passages", given=passages, allowed="an iterable of Passage")
    new: dict[str, Passage] = {}
    skipped = 0
    for i, item in enumerate(passages):
        other = stored.get(item.id) or new.get(item.id) if isinstance(item, Passage) else None
        error = _fault(f"passages[{i}]", item, other)
        if error is None and other is None:
            new[item.id] = item
        elif error is not None:
            if on_bad == "raise":
                raise error
            skipped += 1
    return list(new.values()), skipped


def _fault(field: str, item: object, other: Passage | None) -> InputError | None:
    if isinstance(item, InputError):
        return item
    if not isinstance(item, Passage):
        return InputError.of(field, given=item, allowed="a Passage")
    named = f"{field}.text (id {item.id!r})"
    if not item.text.strip():
        return InputError.of(named, given=item.text, allowed="a string that is not blank")
    if other is not None and other.text != item.text:
        allowed = "the text that is stored under this id, or another id"
        return InputError.of(named, given=item.text, allowed=allowed)
    return None
