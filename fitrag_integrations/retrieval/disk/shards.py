"""Several FAISS indexes, each of a part of the passages, searched as one.

Each part is built by itself, in the memory that it alone takes, and on a machine of its own if need
be. Vectors stay on disk as they are searched.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.retrieval._storage import MANIFEST
from fitrag_integrations.retrieval._vectors import TextEncoder
from fitrag_integrations.retrieval.index import FaissIndex, IndexRetriever, checked
from fitrag_integrations.types import Passage


class IndexShards:
    """Find the passages whose vectors have the largest inner product with a query's, in any part.

    The parts have one encoder; queries are encoded once. An exact kind finds what one index of all
    passages would.
    """

    def __init__(self, parts: Sequence[FaissIndex]) -> None:
        if not parts:
            raise InputError.of("parts", given=parts, allowed="at least one FaissIndex")
        self.parts = tuple(parts)
        self._retrievers: dict[int, IndexRetriever] = {}

    @classmethod
    def load(cls, folder: str | Path, *, encoder: TextEncoder | None = None) -> IndexShards:
        """Open the indexes in the folders of a folder, in the order of their names.

        Raises as `FaissIndex.load`, and `ModelLoadError` where there is none.
        """
        parts = list[FaissIndex]()
        for each in sorted(Path(folder).glob(f"*/{MANIFEST}")):
            shared = parts[0].encoder if parts else encoder
            parts.append(FaissIndex.load(each.parent, encoder=shared, memory_map=True))
        if not parts:
            raise ModelLoadError(f"{folder}: no folder in it has a {MANIFEST}")
        return cls(parts)

    def search(self, queries: Sequence[str], k: int = DEFAULTS.k) -> list[list[Passage]]:
        """Return the best k passages of all parts for each query, best first; see `FaissIndex`."""
        texts, k = checked(queries, k)
        if not texts or not len(self):
            return [[] for _ in texts]
        vectors = self.parts[0].vectors(texts)
        found = [part.nearest(vectors, k) for part in self.parts if len(part)]
        return [heapq.nlargest(k, chain(*rows), key=_score) for rows in zip(*found, strict=True)]

    async def asearch(self, queries: Sequence[str], k: int = DEFAULTS.k) -> list[list[Passage]]:
        """Search as `search` does, in a thread; the event loop stays free."""
        return await asyncio.to_thread(self.search, queries, k)

    def as_retriever(self, k: int = DEFAULTS.k) -> IndexRetriever:
        """Return the parts as a retriever: the same object for the same k, so that flows join."""
        made = IndexRetriever(self, k)
        return self._retrievers.setdefault(made.k, made)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __repr__(self) -> str:
        return f"IndexShards({len(self)} passages in {len(self.parts)} parts)"


def _score(passage: Passage) -> float:
    return float(passage.metadata["retrieval_score"])
