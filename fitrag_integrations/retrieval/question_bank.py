"""Questions labeled "answered correctly without retrieval", with a search for the nearest ones.

FIT-RAG (section 4.3) measures the Euclidean distance between vectors of the T5 encoder; here any
encoder with `name`, `width` and `encode` can be used. A bank is saved as an index is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fitrag_integrations.core.checks import check_many, check_texts
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.retrieval._store import BANK, Store, empty, read, write
from fitrag_integrations.retrieval.encoder import (
    Encoder,
    Origin,
    TextEncoder,
    Vectors,
    encode_as,
)
from fitrag_integrations.retrieval.index import Searched
from fitrag_integrations.types import Passage


class QuestionBank(Searched):
    """Bank of labeled questions that finds the nearest ones; satisfies the recognizer's `Bank`.

    Create a bank with `build` or `load`. Any thread may search.

    Args:
        questions: The questions.
        known: Whether each was answered correctly without retrieval.
        vectors: Vectors of the questions. Shape: (questions, width).
        origin: Encoder that computed the vectors.
    """

    _role = "query"

    def __init__(
        self, questions: Sequence[str], known: Sequence[bool], vectors: Vectors, origin: Origin
    ) -> None:
        texts, labels = check_texts("questions", questions), check_many("known", known, bool)
        sizes = f"got {len(texts)} and {len(labels)}"
        wrong = f"`questions` and `known` must have equal lengths of at least 1, {sizes}"
        refuse_if(not texts or len(texts) != len(labels), wrong)
        self._origin = origin
        self._store = Store(empty(BANK, origin.width), kind=BANK)
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
        texts = check_texts("questions", questions)
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
        return _known(self._found("questions", questions, k))

    async def aneighbours(self, questions: Sequence[str], k: int) -> list[list[bool]]:
        """Async version of `neighbours`.

        Args:
            questions: Texts that are not blank.
            k: Neighbors per question; all of the bank if it is smaller.
        """
        return _known(await self._afound("questions", questions, k))

    @property
    def questions(self) -> tuple[str, ...]:
        """Return the questions, in the order given."""
        return tuple(row.text for row in self._store.passages)

    @property
    def known(self) -> tuple[bool, ...]:
        """Return for each question whether it was answered correctly without retrieval."""
        return tuple(_known([self._store.passages])[0])

    def __repr__(self) -> str:
        return f"QuestionBank({len(self)} questions, encoder={self.encoder.name!r})"


def _known(found: list[list[Passage]]) -> list[list[bool]]:
    return [[row.metadata["known"] for row in rows] for rows in found]
