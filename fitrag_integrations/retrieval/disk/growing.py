"""An index that is built and searched on disk, block by block, in bounded memory.

Vectors lie in half precision in one file, passages as lines in another, and beside them where each
line ends and what tells passages apart. A block counts once `state.json` names it, which is
replaced last and in one step: what an interrupted block left is cut off at the next writing.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.files import only_writer
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.retrieval._same_encoder import Origin
from fitrag_integrations.retrieval._store import admit
from fitrag_integrations.retrieval._vectors import (
    TextEncoder,
    Vectors,
    checked_vectors,
    passage_text,
)
from fitrag_integrations.retrieval.encoder import Encoder
from fitrag_integrations.types import Passage

STATE, FORMAT = "state.json", 1
BLOCK = 1024  # passages encoded and committed at once
ROWS = 32768  # vectors that a search holds in float32 at once


class GrowingIndex:
    """Find the passages whose vectors have the largest inner product with a query's, on disk.

    `folder` is new, or one that was written before, whole or not. `encoder` as for `FaissIndex`; it
    must be the one of the first call. One process writes at a time; any number may search
    meanwhile, and see what is committed.
    """

    def __init__(self, folder: str | Path, encoder: TextEncoder | None = None) -> None:
        self._folder = Path(folder)
        self.encoder = Encoder() if encoder is None else encoder
        described = Origin.of(self.encoder).describe()
        self._width: int = described["width"]
        self._adding = threading.Lock()
        self._known: dict[int, int] | None = None  # of each passage's id, that of its text
        self._folder.mkdir(parents=True, exist_ok=True)
        found = self._state()
        if found is None:
            self._commit({"count": 0, "bytes": 0, "encoder": described})
        elif found["encoder"] != described:
            allowed = f"the encoder this index was begun with, {found['encoder']['name']!r}"
            raise InputError.of("encoder", given=self.encoder.name, allowed=allowed)

    def add(self, passages: Iterable[object], *, on_bad: str = "raise") -> int:
        """Encode and store passages, a block of 1,024 after the other; gives how many were new.

        What a block brings is kept from then on, whatever comes after. Bad passages are those of
        `FaissIndex.add`, looked for within a block; a text under an id that another text has raises
        `InputError`, or is left out with `on_bad="skip"`.
        """
        added = 0
        with self._adding, only_writer(self._folder):
            self._cut()
            items = iter(passages)
            while block := list(islice(items, BLOCK)):
                new, _ = admit(block, stored={}, on_bad=on_bad)
                new = list(self._unknown(new, on_bad))
                if new:
                    self._append(new)
                added += len(new)
        return added

    def search(self, queries: Sequence[str], k: int = DEFAULTS.k) -> list[list[Passage]]:
        """Return the best k passages for each query, best first; all where there are fewer.

        Each has `retrieval_score`, the inner product, in its metadata.
        """
        k, state = check_whole("k", k, low=1), self._read_state()
        if not queries or not state["count"]:
            return [[] for _ in queries]
        asked = self._checked(self.encoder.encode(list(queries)), len(queries))
        scores, places = self._nearest(asked, min(k, state["count"]), state["count"])
        ends = self._ends(state["count"])
        with (self._folder / "passages.jsonl").open("rb") as file:
            rows = zip(scores.tolist(), places.tolist(), strict=True)
            return [
                [_passage(file, ends, *each) for each in zip(*row, strict=True)] for row in rows
            ]

    def __len__(self) -> int:
        return int(self._read_state()["count"])

    def __repr__(self) -> str:
        return f"GrowingIndex({len(self)} passages, encoder={self.encoder.name!r})"

    def _nearest(self, asked: Vectors, k: int, count: int) -> tuple[Vectors, NDArray[np.int64]]:
        """Keep the best of each stretch of rows, sorted at the end."""
        shape = (count, self._width)
        stored = np.memmap(self._folder / "vectors.f16", np.float16, "r", shape=shape)
        scores = np.empty((len(asked), 0), np.float32)
        places = np.empty((len(asked), 0), np.int64)
        for start in range(0, count, ROWS):
            found = asked @ stored[start : start + ROWS].astype(np.float32).T
            rows = np.broadcast_to(np.arange(start, start + found.shape[1]), found.shape)
            scores, places = np.hstack([scores, found]), np.hstack([places, rows])
            if scores.shape[1] > k:
                best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
                scores = np.take_along_axis(scores, best, 1)
                places = np.take_along_axis(places, best, 1)
        order = np.lexsort((places, -scores))
        return np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)

    def _append(self, new: Sequence[Passage]) -> None:
        state = self._read_state()
        vectors = self._checked(self.encoder.encode([passage_text(p) for p in new]), len(new))
        lines = [json.dumps(passage.to_dict()).encode() + b"\n" for passage in new]
        ends = state["bytes"] + np.cumsum([len(line) for line in lines], dtype=np.int64)
        marks = np.array([_marks(passage) for passage in new], dtype=np.int64)
        parts = {
            "vectors.f16": vectors.astype(np.float16).tobytes(),
            "passages.jsonl": b"".join(lines),
            "ends.i64": ends.tobytes(),
            "marks.i64": marks.tobytes(),
        }
        for name, content in parts.items():
            with (self._folder / name).open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        count = state["count"] + len(new)
        self._commit({**state, "count": count, "bytes": int(ends[-1])})
        self._known_marks().update(map(_marks, new))

    def _unknown(self, passages: Iterable[Passage], on_bad: str) -> Iterator[Passage]:
        known = self._known_marks()
        for passage in passages:
            own, text = _marks(passage)
            if own not in known:
                yield passage
            elif known[own] != text and on_bad == "raise":
                allowed = "the text that is stored under this id, or another id"
                raise InputError.of(f"id {passage.id!r}", given=passage.text, allowed=allowed)

    def _known_marks(self) -> dict[int, int]:
        if self._known is None:
            path, count = self._folder / "marks.i64", self._read_state()["count"]
            marks = np.fromfile(path, np.int64, 2 * count) if count else np.empty(0, np.int64)
            self._known = {int(own): int(text) for own, text in marks.reshape(-1, 2)}
        return self._known

    def _cut(self) -> None:
        """Cut off what a block left that was never committed, and forget what it brought."""
        state = self._read_state()
        count, self._known = state["count"], None
        sizes = {"vectors.f16": 2 * self._width * count, "passages.jsonl": state["bytes"]}
        for name, size in {**sizes, "ends.i64": 8 * count, "marks.i64": 16 * count}.items():
            path = self._folder / name
            path.touch()
            if path.stat().st_size < size:
                raise ModelLoadError(f"{path} has {path.stat().st_size} bytes, not {size}")
            os.truncate(path, size)

    def _ends(self, count: int) -> NDArray[np.int64]:
        return np.memmap(self._folder / "ends.i64", np.int64, "r", shape=(count,))

    def _checked(self, found: object, count: int) -> Vectors:
        return checked_vectors(found, count=count, width=self._width, encoder=self.encoder)

    def _state(self) -> dict[str, Any] | None:
        path = self._folder / STATE
        if not path.is_file():
            return None
        try:
            state: dict[str, Any] = jsonl.loads(path.read_text(encoding="utf-8"))
            _ = state["count"] + state["bytes"], state["encoder"]["name"]
            if state["format"] != FORMAT:
                raise ValueError(f"format {state['format']!r}, allowed {FORMAT}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelLoadError(f"{path} is not an index's state: {error!r}") from error
        return state

    def _read_state(self) -> dict[str, Any]:
        state = self._state()
        if state is None:
            raise ModelLoadError(f"{self._folder / STATE} is missing")
        return state

    def _commit(self, state: dict[str, Any]) -> None:
        beside = self._folder / f".{STATE}.tmp"
        with beside.open("w", encoding="utf-8") as file:
            json.dump({**state, "format": FORMAT}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._folder / STATE)


def _marks(passage: Passage) -> tuple[int, int]:
    """Return eight-byte hashes of each passage and its text."""
    own, text = (
        int.from_bytes(hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=8).digest())
        for part in (passage.id, passage.text)
    )
    return own - 2**63, text - 2**63


def _passage(file: Any, ends: NDArray[np.int64], score: float, place: int) -> Passage:
    start = int(ends[place - 1]) if place else 0
    file.seek(start)
    row = jsonl.loads(file.read(int(ends[place]) - start))
    metadata = {**row.get("metadata", {}), "retrieval_score": score}
    return Passage.from_dict({**row, "metadata": metadata})
