"""The rows an evaluator learns from: a question, what was retrieved, and which of it is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.rows import passage_row
from fitrag_integrations.types import Passage


@dataclass(frozen=True, slots=True)
class Judged:
    """Passages of a question, each with a label: 1 if it holds the answer, else 0.

    `answers` say where in them it is; empty where nobody knows its wording.
    """

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    holds: tuple[int, ...]

    @property
    def pairs(self) -> list[tuple[str, Passage]]:
        """Return each passage with the question."""
        return [(self.question, passage) for passage in self.passages]


def judged_row(row: Mapping[str, Any]) -> Judged:
    """Make a judged question of a JSON object whose passages carry `has_answer`.

    Raises `InputError` naming the field that is missing or wrong.
    """
    passages = check_many("passages", row.get("passages"), dict)
    if not passages:
        raise InputError.of("passages", given=row.get("passages"), allowed="at least one")
    return Judged(
        check_text("question", row.get("question")),
        check_many("answers", row.get("answers") or (), str),
        tuple(passage_row(passage) for passage in passages),
        tuple(_label(passage, at) for at, passage in enumerate(passages)),
    )


def _label(passage: Mapping[str, object], at: int) -> int:
    given = passage.get("has_answer")
    if given not in (0, 1):
        raise InputError.of(f"passages[{at}].has_answer", given=given, allowed="0 or 1")
    return int(given)


def judged_json(row: Judged) -> dict[str, object]:
    """Make a JSON object of a judged question."""
    pairs = zip(row.passages, row.holds, strict=True)
    return {
        "question": row.question,
        "answers": list(row.answers),
        "passages": [{"title": p.title, "text": p.text, "has_answer": h} for p, h in pairs],
    }
