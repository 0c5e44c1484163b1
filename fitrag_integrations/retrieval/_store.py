"""Passages and their vectors in a FAISS index, exact or at half the size."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from fitrag_integrations.core.checks import check_one
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import plain, remade
from fitrag_integrations.errors import InputError, ModelLoadError, refuse_if
from fitrag_integrations.retrieval._encoding import Vectors
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Passage

ON_BAD = ("raise", "skip")
MOST_ON_GPU = 2048  # neighbours that FAISS finds there in one search
Kind = Literal["flat", "fp16"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MARKS: dict[Kind, bytes] = {"flat": b"IxFI", "fp16": b"IxSQ"}
"""By what FAISS begins a file of each."""


def checked_kind(name: str) -> Kind:
    """Return the kind of index of that name; raises `InputError` for an unknown name."""
    for kind in KINDS:
        if kind == name:
            return kind
    raise InputError.of("kind", given=name, allowed=", ".join(KINDS))


def faiss() -> Any:
    """Import FAISS."""
    return require_extra("faiss", extra="faiss", feature="FaissIndex")


def empty(kind: Kind, width: int) -> Any:
    """Return an empty index of inner products."""
    home = faiss()
    if kind == "fp16":
        quantizer = home.ScalarQuantizer.QT_fp16
        return home.IndexScalarQuantizer(width, quantizer, home.METRIC_INNER_PRODUCT)
    return home.IndexFlatIP(width)


class Store:
    """Passages by row, searched and extended from any thread."""

    def __init__(
        self,
        flat: Any,
        passages: Sequence[Passage] = (),
        *,
        kind: Kind = "flat",
        turned: Mapping[str, str] | None = None,
    ) -> None:
        self.flat = flat
        self.kind = kind
        self.turned = dict(turned or {})  # metadata that was no JSON, with what it was
        self.fixed = False  # vectors that are read where they lie on disk
        self._searched: Any = None  # a copy on a GPU, or the same
        self.passages = list(passages)
        self.by_id = {passage.id: passage for passage in passages}
        self._lock = threading.Lock()  # faiss moves its vectors when some are added

    @classmethod
    def empty(cls, width: int, kind: Kind = "flat") -> Store:
        """Return a store without passages."""
        return cls(empty(kind, width), kind=kind)

    @property
    def width(self) -> int:
        """The number of dimensions of a vector."""
        return int(self.flat.d)

    def add(self, passages: Sequence[Passage], vectors: Vectors) -> None:
        """Append passages. Shape: vectors (n, width)."""
        allowed = "an index loaded with memory_map=False"
        refuse_if(self.fixed, "index", "one that is mapped from disk", allowed)
        with self._lock:
            self.flat.add(vectors)
            self._searched = None
            self.passages.extend(passages)
            self.by_id.update((passage.id, passage) for passage in passages)

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
            searched = self._searched if most <= MOST_ON_GPU else self.flat
            scores, places = searched.search(vectors, most)
        if np.isnan(scores[places >= 0]).any():
            raise ModelLoadError("the index holds vectors that are not numbers: build it again")
        return [
            [_scored(self.passages[at], score) for at, score in zip(*row, strict=True) if at >= 0]
            for row in zip(places.tolist(), scores.tolist(), strict=True)
        ]

    def __len__(self) -> int:
        return len(self.passages)

    def __getstate__(self) -> dict[str, object]:
        passages, vectors = self.first()
        settings = {"width": self.width, "kind": self.kind, "turned": self.turned}
        return {**settings, "passages": passages, "vectors": vectors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kind = state["kind"]
        turned = state["turned"]
        self.__init__(empty(kind, state["width"]), kind=kind, turned=turned)  # type: ignore[misc]
        if state["passages"]:
            self.add(state["passages"], state["vectors"])


def _scored(passage: Passage, score: float) -> Passage:
    return replace(passage, metadata={**passage.metadata, "retrieval_score": score})


def on_gpu(flat: Any, kind: Kind) -> Any:
    """Copy a flat index to a GPU if this build of FAISS supports it; else return it unchanged.

    Vectors stay in float32 as on the CPU, so scores are equal up to rounding.
    """
    home = faiss()
    if kind != "flat" or not hasattr(home, "StandardGpuResources") or not home.get_num_gpus():
        return flat
    return home.index_cpu_to_gpu(home.StandardGpuResources(), 0, flat)


def admit(
    passages: Iterable[Any], *, stored: Mapping[str, Passage], on_bad: str
) -> tuple[list[Passage], int, dict[str, str]]:
    """Return the new passages, in order, and the number of bad ones that were skipped.

    Their metadata is made plain, as it will be saved. The third result has the names of the values
    that were converted, each with its original type.

    Bad items are blank texts, items that are not a `Passage`, errors that `read_corpus` yields, and
    passages whose id belongs to another text. Of passages with equal id and text, the first is
    kept. With `on_bad="raise"` the first bad one raises its `InputError`.
    """
    check_one("on_bad", on_bad, ON_BAD)
    if isinstance(passages, str | bytes | Mapping | Passage) or not isinstance(passages, Iterable):
        raise InputError.of("passages", given=passages, allowed="an iterable of Passage")
    new: dict[str, Passage] = {}
    skipped, turned = 0, dict[str, str]()
    for i, item in enumerate(passages):
        other = stored.get(item.id) or new.get(item.id) if isinstance(item, Passage) else None
        error = _fault(f"passages[{i}]", item, other)
        if error is None and other is None:
            metadata = plain(item.metadata)
            for name, value in item.metadata.items():
                if repr(value) != repr(metadata[str(name)]):
                    turned[str(name)] = type(value).__name__
            new[item.id] = remade(item, metadata=metadata)
        elif error is not None:
            if on_bad == "raise":
                raise error
            skipped += 1
    return list(new.values()), skipped, turned


def _fault(field: str, item: object, other: Passage | None) -> InputError | None:
    if isinstance(item, InputError):
        return item
    if not isinstance(item, Passage):
        return InputError.of(field, given=item, allowed="a Passage")
    named = f"{field}.text (id {item.id!r})"
    if not has_text(item.text):
        return InputError.of(named, given=item.text, allowed="a string that is not blank")
    if other is not None and other.text != item.text:
        allowed = "the text that is stored under this id, or another id"
        return InputError.of(named, given=item.text, allowed=allowed)
    return None
