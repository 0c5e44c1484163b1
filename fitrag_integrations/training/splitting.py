"""Hold questions out, and see that none stands on both sides."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from fitrag_integrations.errors import InputError


class Asked(Protocol):
    """A row about a question."""

    @property
    def question(self) -> str: ...


Row = TypeVar("Row", bound=Asked)
ENOUGH = "enough questions to hold some out"


def split(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Split off a fraction of the questions; equal questions stay on one side."""
    questions = sorted({row.question for row in rows})
    random.Random(seed).shuffle(questions)
    return _parted(rows, set(questions[: round(share * len(questions))]))


def split_by_hash(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Split off a fraction of the questions, each by a hash of its text."""
    return _parted(rows, {row.question for row in rows if _place(row.question, seed) < share})


def _parted(rows: Sequence[Row], held: Collection[str]) -> tuple[list[Row], list[Row]]:
    train = [row for row in rows if row.question not in held]
    if not train or not held:
        raise InputError.of("rows", given=len(rows), allowed=ENOUGH)
    return train, [row for row in rows if row.question in held]


def _place(question: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}:{question.strip().casefold()}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def refuse_shared(train: Sequence[Asked], held: Sequence[Asked]) -> None:
    """Raise `InputError` naming the questions that stand among both; case and blanks aside."""
    known = {_plain(row.question) for row in train}
    shared = sorted({row.question for row in held if _plain(row.question) in known})
    if shared:
        allowed = f"questions that are not trained on; {len(shared)} of them are"
        raise InputError.of("validation", given="; ".join(shared[:3]), allowed=allowed)


def _plain(question: str) -> str:
    return " ".join(question.split()).casefold()
