"""Choose the score under which a reader gives no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fitrag_integrations.errors import InputError


class Read(Protocol):
    """A question's passages, labelled and read: see `training.rows.Labelled`."""

    @property
    def has_answer(self) -> Sequence[int]: ...
    @property
    def llm_prefer(self) -> Sequence[int | None]: ...
    @property
    def reader_scores(self) -> Sequence[float]: ...


def fit_abstention(rows: Sequence[Read], *, depth: int = 5) -> tuple[float, float]:
    """Choose the score under which a reader had better not answer. Gives it and its accuracy.

    The reader answers each question from that of its first `depth` passages which it scores
    highest: the more it reads, the higher the best score by chance, so let `depth` be what it will
    be given. Right is a correct answer at or above the threshold, and none below it where no such
    passage holds the answer.
    """
    known = [row for row in rows if row.reader_scores and None not in row.llm_prefer]
    if not known:
        raise InputError.of("rows", given=len(rows), allowed="rows with reader_score, llm_prefer")
    best = [
        max(zip(row.reader_scores[:depth], row.llm_prefer[:depth], strict=True)) for row in known
    ]
    empty = [not any(row.has_answer[:depth]) for row in known]
    grid = [i / 100 for i in range(100)]
    accuracy = {
        t: sum(
            bool(right) if score >= t else none
            for (score, right), none in zip(best, empty, strict=True)
        )
        / len(known)
        for t in grid
    }
    chosen = max(grid, key=accuracy.__getitem__)
    return chosen, accuracy[chosen]
