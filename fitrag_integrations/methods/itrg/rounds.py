"""One round of ITRG: what it asks the retriever with, and what is new in it (ITRG, section 2.2).

All pure; the flow is in ``itrg``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.types import Passage

_ARTICLES = frozenset(("a", "an", "the"))


@dataclass(frozen=True, slots=True)
class Round:
    """Hold one round: its query, ``R_t``, what of it is new, and the document ``y_t`` after it."""

    query: str = ""
    passages: tuple[Passage, ...] = ()
    new: tuple[Passage, ...] = ()
    document: str = ""
    answer: str | None = None
    notes: tuple[str, ...] = ()
    failed: bool = False

    def told(self, number: int) -> dict[str, Any]:
        """Give the round as plain values; passages by their ids."""
        new = set(map(id, self.new))
        return {
            "round": number,
            "query": self.query,
            "new": [passage.id for passage in self.new],
            "old": [passage.id for passage in self.passages if id(passage) not in new],
            "document": self.document,
            "answer": self.answer,
        }


START = Round()


def expanded_query(question: str, document: str) -> str:
    """Write the query of a round, ``[q; y]`` (section 2.2); the question alone without a document.

    Line breaks become blanks.
    """
    return " ".join(f"{question} {document}".split()) if document else question


def update(found: Sequence[Passage], before: Sequence[Passage]) -> tuple[Passage, ...]:
    """Give ``R_update``, what is found and was not before, in order (equation 1).

    Passages are equal when title and text are: scores in their metadata change with the query.
    """
    known = {(passage.title, passage.text) for passage in before}
    return tuple(passage for passage in found if (passage.title, passage.text) not in known)


def same_answer(one: str, other: str) -> bool:
    """Compare as exact match does: without case, punctuation, articles and extra blanks."""
    words = [re.findall(r"\w+", answer.casefold()) for answer in (one, other)]
    left, right = ([word for word in each if word not in _ARTICLES] for each in words)
    return left == right and bool(left)
