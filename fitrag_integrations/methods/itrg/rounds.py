"""What a round of ITRG has come to (ITRG, section 2.2): pure; the flow is in ``method``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from fitrag_integrations.types import Passage
from fitrag_integrations.values.selected import Selection

_ARTICLES = frozenset(("a", "an", "the"))


@dataclass(frozen=True, slots=True)
class Round:
    """One round: its query, ``R_t``, what of it is new, and the document ``y_t`` after it.

    ``found`` is whether this round's own retrieval gave the passages; ``selection`` records what
    was dropped of that retrieval.
    """

    query: str = ""
    passages: tuple[Passage, ...] = ()
    new: tuple[Passage, ...] = ()
    document: str = ""
    answer: str | None = None
    notes: tuple[str, ...] = ()
    failed: bool = False
    found: bool = False
    selection: Selection = field(default_factory=Selection, compare=False, repr=False)

    def answered(self, answer: str, failed: tuple[str, ...]) -> Round:
        """Return the round with an answer, or with a note where none was written for its
        document.
        """
        if answer:
            return replace(self, answer=answer)
        return replace(self, answer=None, notes=(*self.notes, *(failed if self.document else ())))

    def details(self, number: int) -> dict[str, object]:
        """Return the round as plain values; passages by their ids."""
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


def same_answer(one: str, other: str) -> bool:
    """Compare as exact match does: without case, punctuation, articles and extra blanks."""
    words = [re.findall(r"\w+", answer.casefold()) for answer in (one, other)]
    left, right = ([word for word in each if word not in _ARTICLES] for each in words)
    return left == right and bool(left)
