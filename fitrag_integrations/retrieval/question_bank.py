"""Questions labeled "answered correctly without retrieval", with a search for the nearest ones.

FIT-RAG (section 4.3) measures the Euclidean distance between vectors of the T5 encoder; here any
encoder with `name`, `width` and `encode` can be used. A bank is saved as an index is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from fitrag_integrations.core.checks import check_many, check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.retrieval._store import BANK, Store, read, write
from fitrag_integrations.retrieval.encoder import (
    Encoder,
    Origin,
    TextEncoder,
    Vectors,
    async_query,
    checked_texts,
    encode_as,
)
from fitrag_integrations.types import Passage


class QuestionBank:
    """Bank of labeled questions that finds the nearest ones; satisfies the recognizer's `Bank`.

    Create a bank with `build` or `load`. Any thread may search.

    Args:
        questions: The questions.
        known: Whether each was answered correctly without retrieval.
        vectors: Vectors of the questions. Shape: (questions, width).
        origin: Encoder that computed the vectors.
    """

    def __init__(
        self, questions: Sequence[str], known: Sequence[bool], vectors: Vectors, origin: Origin
    ) -> None:
        texts, labels = checked_texts("questions", questions), check_many("known", known, bool)
        if not texts or len(texts) != len(labels):
            given = (len(texts), len(labels))
            raise InputError.of("questions, known", given=given, allowed="as many of both, 1 up")
        self._origin = origin
        self._store = Store.empty(origin.width, BANK)
        rows = [
            Passage(str(i), text, metadata={"known": label})
            for i, (text, label) in enumerate(zip(texts, labels, strict=True))
        ]
        self._store.add(rows, origin.checked(vectors, len(texts)))

    @classmethod
    def build(
        cls, questions: Sequence[str], known: Sequence[bool], encoder: TextEncoder | None = None
    ) -> QuestionBank:
        """Encode labeled questions.

        Args:
            questions: The questions.
            known: Whether each was answered correctly without retrieval.
            encoder: As for `FaissIndex`.
        """
        origin = Origin.of(Encoder() if encoder is None else encoder)
        texts = checked_texts("questions", questions)
        return cls(texts, known, encode_as(origin.encoder, "query", texts), origin)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: TextEncoder | None = None) -> QuestionBank:
        """Read a bank that `save` wrote.

        Args:
            folder: Folder of the bank.
            encoder: Encoder of the questions. Defaults to the one it was built with, by name. An
                encoder whose vectors of stored questions differ raises `InputError` at the first
                search.

        Raises:
            ModelLoadError: If a file is missing or damaged.
            ChecksumError: If a file is not the one that was saved.
        """
        flat, rows, manifest, _ = read(Path(folder), kinds=(BANK,))
        origin = Origin.read(manifest["encoder"], encoder)
        known = check_many("known", [row.metadata.get("known") for row in rows], bool)
        return cls([row.text for row in rows], known, flat.reconstruct_n(0, len(rows)), origin)

    def save(self, folder: str | Path) -> None:
        """Save the bank in a folder, replacing an older one.

        Args:
            folder: Folder to write.

        Raises:
            InputError: If another thread or process is writing it.
        """
        store = self._store
        write(
            Path(folder), store.flat, store.passages, self._origin.describe(), kind=BANK, turned={}
        )

    def neighbours(self, questions: Sequence[str], k: int) -> list[list[bool]]:
        """Find the nearest questions by Euclidean distance.

        Args:
            questions: Texts that are not blank.
            k: Neighbors per question; all of the bank if it is smaller.

        Returns:
            For each question whether its neighbors were known, nearest first.
        """
        texts, k = checked_texts("questions", questions), check_whole("k", k, low=1)
        if not texts:
            return []
        self._origin.prove(self._store.first, role="query")
        return self._nearest(self._origin.encode("query", texts), k)

    async def aneighbours(self, questions: Sequence[str], k: int) -> list[list[bool]]:
        """Async version of `neighbours`.

        Args:
            questions: Texts that are not blank.
            k: Neighbors per question; all of the bank if it is smaller.
        """
        aencode = async_query(self.encoder)
        if aencode is None or not questions or not self._origin.proven:
            return await asyncio.to_thread(self.neighbours, questions, k)
        texts, k = checked_texts("questions", questions), check_whole("k", k, low=1)
        vectors = self._origin.checked(await aencode(texts), len(texts))
        return await asyncio.to_thread(self._nearest, vectors, k)

    @property
    def encoder(self) -> TextEncoder:
        """The encoder in use."""
        return self._origin.encoder

    @property
    def questions(self) -> tuple[str, ...]:
        """Return the questions, in the order given."""
        return tuple(row.text for row in self._store.passages)

    @property
    def known(self) -> tuple[bool, ...]:
        """Return for each question whether it was answered correctly without retrieval."""
        return tuple(row.metadata["known"] for row in self._store.passages)

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        return f"QuestionBank({len(self)} questions, encoder={self.encoder.name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the vectors, not the search structure and its lock."""
        return type(self), (self.questions, self.known, self._store.first()[1], self._origin)

    def _nearest(self, vectors: Vectors, k: int) -> list[list[bool]]:
        found = self._store.nearest(vectors, k)
        return [[row.metadata["known"] for row in rows] for rows in found]
