"""FAISS index of passages by inner products, in memory or mapped from disk, saved as a folder.

With up to a few hundred thousand passages the search is exact and takes milliseconds; beyond a few
million use a store of LangChain or LlamaIndex.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    can,
    check_many,
    check_text,
    check_texts,
    check_whole,
)
from fitrag_integrations.core.progress import tracked
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.retrieval._store import KINDS, Store, admit, empty, read, write
from fitrag_integrations.retrieval.encoder import (
    Encoder,
    Origin,
    TextEncoder,
)
from fitrag_integrations.retrieval.encoder import passage_text as written
from fitrag_integrations.types import Context, Excerpt, Passage


@dataclass(frozen=True)
class IndexRetriever(Checked):
    """Retriever over an index; equal for equal index and k.

    Args:
        index: The index to search.
        k: Passages per query.
    """

    index: FaissIndex
    k: Count = DEFAULTS.k

    def retrieve(self, queries: Sequence[str], /) -> list[list[Passage]]:
        """Search for all queries at once, best first."""
        return self.index.search(queries, self.k)

    async def aretrieve(self, queries: Sequence[str], /) -> list[list[Passage]]:
        """Async version of `retrieve`."""
        return await self.index.asearch(queries, self.k)


BLOCK = 128
"""Passages encoded in one call: a search that comes meanwhile waits for one block at most."""


class Searched:
    """Base of what holds passages with the vectors of an encoder, and finds the nearest."""

    _store: Store
    _origin: Origin
    _role = "document"  # in which the stored passages were encoded

    @property
    def encoder(self) -> TextEncoder:
        """The encoder in use."""
        return self._origin.encoder

    def __len__(self) -> int:
        return len(self._store)

    def _found(self, field: str, queries: object, k: object) -> list[list[Passage]]:
        texts, most = check_texts(field, queries), check_whole("k", k, low=1)
        if not texts or not len(self):
            return [[] for _ in texts]
        self._origin.prove(self._store.first, role=self._role)
        return self._store.nearest(self._origin.encode("query", texts), most)

    async def _afound(self, field: str, queries: object, k: object) -> list[list[Passage]]:
        own = "aencode_query" if hasattr(self.encoder, "encode_query") else "aencode"
        aencode = getattr(self.encoder, own, None)
        texts, most = check_texts(field, queries), check_whole("k", k, low=1)
        if aencode is None or not texts or not self._origin.proven:
            return await asyncio.to_thread(self._found, field, texts, most)
        vectors = self._origin.checked(await aencode(texts), len(texts))
        return await asyncio.to_thread(self._store.nearest, vectors, most)


class FaissIndex(Searched):
    """Index that finds the passages with the largest inner product with a query.

    Threads may search while others add.

    Args:
        encoder: An `Encoder` or any object with `name`, `width` and `encode`. Defaults to the
            embedded one.
        kind: "flat" (exact) or "fp16" (half the size, nearly exact).

    Example:
        >>> index = FaissIndex.build(passages)
        >>> index.save("folder")
        >>> found = FaissIndex.load("folder").search(["who wrote the score?"], k=5)
    """

    _read: tuple[str, str]  # the folder it was loaded from, and the version there

    def __init__(self, encoder: TextEncoder | None = None, *, kind: str = "flat") -> None:
        refuse_if(kind not in KINDS, "kind", kind, ", ".join(KINDS))
        origin = Origin.of(Encoder() if encoder is None else encoder)
        self._hold(Store(empty(kind, origin.width), kind=kind), origin)

    @classmethod
    def build(
        cls,
        passages: Iterable[object],
        *,
        encoder: TextEncoder | None = None,
        show_progress: bool = False,
        on_bad: str = "raise",
        kind: str = "flat",
    ) -> FaissIndex:
        """Encode passages into a new index.

        Args:
            passages: Passages to store; see `add`.
            encoder: As for `FaissIndex`.
            show_progress: Whether to draw a bar.
            on_bad: "raise" or "skip"; see `add`.
            kind: As for `FaissIndex`.
        """
        index = cls(encoder, kind=kind)
        index.add(passages, on_bad=on_bad, show_progress=show_progress)
        return index

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        encoder: TextEncoder | None = None,
        memory_map: bool = False,
    ) -> FaissIndex:
        """Read an index that `save` wrote.

        Args:
            folder: Folder of the index.
            encoder: Encoder of the queries. By default the one that the index was built with is
                loaded at the first search.
            memory_map: Whether to map the vectors from disk instead of loading them.

        Raises:
            InputError: If the encoder's vectors of stored passages differ from the stored ones.
            ModelLoadError: If a file is missing or damaged.
            ChecksumError: If a file is not the one that was saved.
        """
        flat, passages, manifest, read_as = read(Path(folder), mapped=memory_map)
        origin = Origin.read(manifest["encoder"], encoder)
        index = cls.__new__(cls)
        index._hold(Store(flat, passages, kind=manifest["kind"], turned=manifest["turned"]), origin)
        index._store.fixed = memory_map
        index._read = (os.path.realpath(folder), read_as)
        if encoder is not None:
            origin.prove(index._store.first)
        return index

    def save(self, folder: str | Path) -> None:
        """Save the index in a folder; an interrupted save leaves the older index.

        Args:
            folder: Folder to write.

        Raises:
            InputError: If another process is writing there, or if the index was loaded from this
                folder and another one has been saved there since.
        """
        with self._adding:
            store, place = self._store, os.path.realpath(folder)
            read_as = self._read[1] if place == self._read[0] else ""
            saved = write(
                Path(folder),
                store.flat,
                store.passages,
                self._origin.describe(),
                kind=store.kind,
                turned=store.turned,
                read_as=read_as,
            )
            if read_as:
                self._read = (place, saved)

    def add(
        self, passages: Iterable[object], *, on_bad: str = "raise", show_progress: bool = False
    ) -> int:
        """Encode and store passages, all or none.

        Metadata is stored as plain JSON values: dates as ISO texts, decimals as floats, UUIDs and
        paths as texts; `notes` names the converted values. A passage with an equal id and text is
        stored once. A blank text, an id that is stored with another text, and an `InputError` among
        the passages are bad.

        Args:
            passages: Passages to store.
            on_bad: "raise", or "skip" to leave bad ones out and count them in `skipped`.
            show_progress: Whether to draw a bar.

        Returns:
            Number of new passages.

        Raises:
            InputError: Naming the first bad passage.
        """
        with self._adding:
            new, skipped, turned = admit(passages, stored=self._store.by_id, on_bad=on_bad)
            if new:
                self._origin.prove(self._store.first)
                texts = [written(passage) for passage in new]
                starts = range(0, len(new), BLOCK)
                vectors = [
                    self._origin.encode("document", texts[start : start + BLOCK])
                    for start in tracked(starts, "Encoding passages", show=show_progress)
                ]
                self._store.add(new, np.concatenate(vectors))
                self._store.turned |= turned
            self.skipped += skipped
        return len(new)

    def search(self, queries: Sequence[str], k: int = DEFAULTS.k) -> list[list[Passage]]:
        """Search for all queries at once.

        Args:
            queries: Texts that are not blank.
            k: Passages per query; all if there are fewer.

        Returns:
            For each query the best passages, best first: copies with `retrieval_score`, the inner
            product, in their metadata.
        """
        return self._found("queries", queries, k)

    async def asearch(self, queries: Sequence[str], k: int = DEFAULTS.k) -> list[list[Passage]]:
        """Async version of `search`.

        Args:
            queries: Texts that are not blank.
            k: Passages per query; all if there are fewer.
        """
        return await self._afound("queries", queries, k)

    def as_retriever(self, k: int = DEFAULTS.k) -> IndexRetriever:
        """Return the index as a retriever; equal for equal k, so that its calls are joined."""
        made = IndexRetriever(self, k)
        return self._retrievers.setdefault(made.k, made)

    @property
    def width(self) -> int:
        """The number of dimensions of a vector."""
        return self._store.width

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note on metadata that was not plain, if any; every search result has it."""
        turned = ", ".join(f"{name} ({kind})" for name, kind in self._store.turned.items())
        return (f"metadata is stored as plain texts, numbers and lists: {turned}",) * bool(turned)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return the stored passages, in the order added."""
        return tuple(self._store.passages)

    def __repr__(self) -> str:
        return f"FaissIndex({len(self)} passages, encoder={self.encoder.name!r})"

    def __getstate__(self) -> tuple[Store, Origin, int]:
        return self._store, self._origin, self.skipped

    def __setstate__(self, state: tuple[Store, Origin, int]) -> None:
        self._hold(*state)

    def _hold(self, store: Store, origin: Origin, skipped: int = 0) -> None:
        self._store = store
        self._origin = origin
        self.skipped = skipped
        self._retrievers: dict[int, IndexRetriever] = {}
        self._adding = threading.Lock()  # one writer at a time
        self._read = ("", "")


def described(
    texts: Iterable[str],
    metadatas: Iterable[Row] | None,
    ids: Iterable[str] | None,
) -> list[tuple[str, dict[str, Any], str]]:
    """Pair each text with its metadata and its id, blank if there is none."""
    kept = check_many("texts", texts, str)
    metadata = [{} for _ in kept] if metadatas is None else [dict(each) for each in metadatas]
    named = [""] * len(kept) if ids is None else list(ids)
    sizes = len(kept), len(metadata), len(named)
    wrong = f"`texts`, `metadatas` and `ids` must have equal lengths, got {sizes}"
    refuse_if(len(set(sizes)) > 1, wrong)
    return list(zip(kept, metadata, named, strict=True))


def searched(queries: Iterable[str], index: Any, k: int | None) -> list[Flow[Context]]:
    """Return the flow of each query, which ends in the index's ``k`` best passages and its notes.

    All of them share one search. An index without ``asearch`` is searched in a thread.
    """

    async def found(texts: Sequence[str]) -> Any:
        return await index.asearch(texts, k)

    acall = found if can(index, "asearch") else None
    port = Port.of("search", lambda texts: index.search(texts, k), acall, owner=index)

    def flow(query: str) -> Flow[Context]:
        (passages,) = yield from port.ask([check_text("query", query, blank=False)])
        notes = index.notes if hasattr(index, "notes") else ()
        return Context(query, tuple(map(Excerpt.whole, passages)), notes=notes, method="faiss")

    return list(map(flow, queries))
