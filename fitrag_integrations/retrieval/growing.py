"""An index that is built and searched on disk, block by block, in bounded memory.

Vectors lie in half precision in one file, passages as lines in another, and beside them where each
line ends, hashes of ids and texts, and a line of checksums for each block. A block counts once
`state.json` names it, which is replaced last and in one step: what an interrupted block left is cut
off at the next writing. The state holds the checksum of all lines of checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.files import only_writer, storing, write_whole
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import ChecksumError, InputError, ModelLoadError, refuse_if
from fitrag_integrations.retrieval._encoding import (
    Origin,
    TextEncoder,
    Vectors,
    checked_texts,
    passage_text,
)
from fitrag_integrations.retrieval._store import admit
from fitrag_integrations.retrieval.encoder import Encoder
from fitrag_integrations.types import Passage

STATE, SEGMENTS = "state.json", "segments.jsonl"
FORMAT = 2
PARTS = ("vectors.f16", "passages.jsonl", "ends.i64", "marks.i64")
BLOCK = 1024  # passages encoded and committed at once
ROWS = 32768  # vectors that a search holds in float32 at once
PATIENCE = 10.0  # seconds to wait while another process creates the index
REMEDY = "restore the folder from a copy, or delete it and build the index again"


class GrowingIndex:
    """Index on disk that finds the passages with the largest inner product with a query.

    One process writes at a time, a second one gets an `InputError`; any number may search meanwhile
    and see what was committed last.

    Args:
        folder: A new folder, or one written before, complete or not.
        encoder: As for `FaissIndex`; it must be the one of the first call.

    Raises:
        InputError: If the index was begun with another encoder.
        ModelLoadError: If a file is missing, too short or not an index's.

    Example:
        ```python
        index = GrowingIndex("folder", encoder)
        index.add(passages)
        index.verify()
        found = index.search(["who wrote the score?"], k=5)
        ```
    """

    def __init__(self, folder: str | Path, encoder: TextEncoder | None = None) -> None:
        self._folder = Path(folder)
        self._origin = Origin.of(Encoder() if encoder is None else encoder)
        self.encoder, described = self._origin.encoder, self._origin.describe()
        self._adding = threading.Lock()
        self._known: dict[int, int] | None = None  # hash of each id to that of its text
        found = self._opened(described)
        allowed = f"the encoder this index was begun with, {found['encoder']['name']!r}"
        refuse_if(found["encoder"] != described, "encoder", self.encoder.name, allowed)

    def add(self, passages: Iterable[object], *, on_bad: str = "raise") -> int:
        """Encode and store passages in blocks of 1,024; each block is kept once it is written.

        Args:
            passages: Passages, as for `FaissIndex.add`; an iterator is read block by block.
            on_bad: "raise" an `InputError` for a bad passage, or for a text under an id that
                another text has, or "skip" it.

        Returns:
            How many passages were new.

        Raises:
            InputError: If another process is writing to the index, or a passage is bad.
            ModelLoadError: If a file is damaged.
            StorageError: If the disk is full; the blocks before stay.
        """
        added = 0
        with self._adding, only_writer(self._folder):
            self._cut()
            items = iter(passages)
            while block := list(islice(items, BLOCK)):
                known, new = self._known_marks(), []
                for passage in admit(block, stored={}, on_bad=on_bad)[0]:
                    own, text = _marks(passage)
                    if own not in known:
                        new.append(passage)
                    elif known[own] != text and on_bad == "raise":
                        allowed = "the text that is stored under this id, or another id"
                        raise InputError.of(
                            f"id {passage.id!r}", given=passage.text, allowed=allowed
                        )
                if new:
                    self._append(new)
                added += len(new)
        return added

    def search(self, queries: Sequence[str], k: int = DEFAULTS.k) -> list[list[Passage]]:
        """Return the best passages for each query, best first.

        Args:
            queries: Texts to search for.
            k: Passages for each query; all where the index has fewer.

        Returns:
            A list for each query; `retrieval_score`, the inner product, is in the metadata.
        """
        texts, k = checked_texts("queries", queries), check_whole("k", k, low=1)
        state = self._state()
        if not texts or not state["count"]:
            return [[] for _ in texts]
        asked = self._origin.encode("query", texts)
        scores, places = self._nearest(asked, min(k, state["count"]), state["count"])
        ends = np.memmap(self._folder / "ends.i64", np.int64, "r", shape=(state["count"],))
        with (self._folder / "passages.jsonl").open("rb") as file:
            rows = zip(scores.tolist(), places.tolist(), strict=True)
            return [
                [self._passage(file, ends, *each) for each in zip(*row, strict=True)]
                for row in rows
            ]

    def verify(self) -> None:
        """Compare all that is committed with its checksums; reads every file once.

        Raises:
            ChecksumError: If a file was changed.
            ModelLoadError: If a file is missing or too short.
        """
        state = self._state()
        with (self._folder / SEGMENTS).open("rb") as file:
            lines = file.read(state["segments"])
        if hashlib.sha256(lines).hexdigest() != state["checksum"]:
            self._refuse(SEGMENTS, "was changed after it was written", ChecksumError)
        segments = [jsonl.loads(line) for line in lines.splitlines()]
        for part in PARTS:
            if sum(segment[part][0] for segment in segments) != self._sizes(state)[part]:
                self._refuse(STATE, f"does not agree with {SEGMENTS}", ChecksumError)
            with (self._folder / part).open("rb") as file:
                for number, segment in enumerate(segments, start=1):
                    size, expected = segment[part]
                    if _digest(file, size) != expected:
                        problem = f"was changed after it was written (block {number})"
                        self._refuse(part, problem, ChecksumError)

    def __len__(self) -> int:
        return int(self._state()["count"])

    def __repr__(self) -> str:
        return f"GrowingIndex({len(self)} passages, encoder={self.encoder.name!r})"

    def _nearest(self, asked: Vectors, k: int, count: int) -> tuple[Vectors, NDArray[np.int64]]:
        """Keep the best of each stretch of rows, sorted at the end."""
        shape = (count, self._origin.width)
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
        state = self._state()
        texts = [passage_text(p) for p in new]
        vectors = self._origin.encode("document", texts)
        lines = [json.dumps(passage.to_dict()).encode() + b"\n" for passage in new]
        ends = state["bytes"] + np.cumsum([len(line) for line in lines], dtype=np.int64)
        marks = np.array([_marks(passage) for passage in new], dtype=np.int64)
        contents = (
            vectors.astype(np.float16).tobytes(),
            b"".join(lines),
            ends.tobytes(),
            marks.tobytes(),
        )
        found = {
            part: [len(content), hashlib.sha256(content).hexdigest()]
            for part, content in zip(PARTS, contents, strict=True)
        }
        segment = jsonl.dump(found)
        for name, content in zip((*PARTS, SEGMENTS), (*contents, segment), strict=True):
            path = self._folder / name
            with storing(path, len(content)), path.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        self._sums.update(segment)
        self._commit(
            state["encoder"],
            count=state["count"] + len(new),
            bytes=int(ends[-1]),
            segments=state["segments"] + len(segment),
        )
        self._known_marks().update(map(_marks, new))

    def _known_marks(self) -> dict[int, int]:
        if self._known is None:
            count = self._state()["count"]
            path = self._folder / "marks.i64"
            marks = np.fromfile(path, np.int64, 2 * count) if count else np.empty(0, np.int64)
            self._known = {int(own): int(text) for own, text in marks.reshape(-1, 2)}
        return self._known

    def _cut(self) -> None:
        """Cut off what was never committed."""
        state = self._state()
        self._known = None
        for name, size in self._sizes(state).items():
            with (self._folder / name).open("ab") as file:
                file.truncate(size)
        self._sums = hashlib.sha256((self._folder / SEGMENTS).read_bytes())
        if self._sums.hexdigest() != state["checksum"]:
            self._refuse(SEGMENTS, "was changed after it was written", ChecksumError)

    def _sizes(self, state: dict[str, Any]) -> dict[str, int]:
        """Return how many bytes of each file are committed."""
        count = state["count"]
        sizes = (2 * state["encoder"]["width"] * count, state["bytes"], 8 * count, 16 * count)
        return dict(zip((*PARTS, SEGMENTS), (*sizes, state["segments"]), strict=True))

    def _passage(
        self, file: IO[bytes], ends: NDArray[np.int64], score: float, place: int
    ) -> Passage:
        start, end = int(ends[place - 1]) if place else 0, int(ends[place])
        try:
            file.seek(start)
            row = jsonl.loads(file.read(end - start))
            metadata = {**row.get("metadata", {}), "retrieval_score": score}
            return Passage.from_dict({**row, "metadata": metadata})
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._refuse("passages.jsonl", f"cannot be read at byte {start} ({error})")

    def _opened(self, encoder: dict[str, Any]) -> dict[str, Any]:
        """Return the committed state; create an empty one under the lock where there is none."""
        until = time.monotonic() + PATIENCE
        self._folder.mkdir(parents=True, exist_ok=True)
        while not (self._folder / STATE).exists():
            try:
                with only_writer(self._folder):
                    if not (self._folder / STATE).exists():
                        left = [part for part in PARTS if (self._folder / part).exists()]
                        if left:
                            self._refuse(STATE, f"is missing beside {left[0]}")
                        self._sums = hashlib.sha256()
                        (self._folder / SEGMENTS).touch()
                        self._commit(encoder, count=0, bytes=0, segments=0)
            except InputError:  # another process is creating it
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        return self._state()

    def _state(self) -> dict[str, Any]:
        """Read what is committed; refuse it where a file is missing or shorter than it says."""
        try:
            text = (self._folder / STATE).read_text(encoding="utf-8")
            state: dict[str, Any] = jsonl.loads(text)
            if state["format"] != FORMAT:
                raise ValueError(f"format {state['format']!r}, allowed {FORMAT}")
            numbers = [state[name] for name in ("count", "bytes", "segments")]
            numbers.append(state["encoder"]["width"])
            if any(type(number) is not int or number < 0 for number in numbers):
                raise ValueError(f"sizes {numbers}")
            _ = state["encoder"]["name"], state["checksum"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._refuse(STATE, f"is not an index's state: {error!r}")
        for name, size in self._sizes(state).items():
            path = self._folder / name
            found = path.stat().st_size if path.is_file() else 0
            if found < size:
                self._refuse(name, f"has {found} bytes, not {size}")
        return state

    def _refuse(
        self, name: str, problem: str, kind: type[ModelLoadError] = ModelLoadError
    ) -> NoReturn:
        raise kind(f"{self._folder / name} {problem}: {REMEDY}")

    def _commit(self, encoder: dict[str, Any], **sizes: int) -> None:
        state = {**sizes, "encoder": encoder, "format": FORMAT, "checksum": self._sums.hexdigest()}
        write_whole(self._folder / STATE, json.dumps(state))


def _marks(passage: Passage) -> tuple[int, int]:
    """Return eight-byte hashes of a passage's id and text."""
    own, text = (
        int.from_bytes(hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=8).digest())
        for part in (passage.id, passage.text)
    )
    return own - 2**63, text - 2**63


def _digest(file: IO[bytes], size: int) -> str:
    """Return the SHA-256 digest of the next bytes of a file."""
    found = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, 2**20))):
        found.update(piece)
        size -= len(piece)
    return found.hexdigest()
