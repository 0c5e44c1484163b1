"""Check what pair models are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.types import Passage


def checked_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Check that each pair is a question and a passage, both with text."""
    return [_checked(i, pair) for i, pair in enumerate(pairs)]


def _checked(i: int, pair: Any) -> Pair:
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Passage)):
        raise InputError.of(f"pairs[{i}]", given=pair, allowed="a (question, Passage) tuple")
    question, passage = pair
    if not isinstance(question, str) or not question.strip():
        allowed = "a string that is not blank"
        raise InputError.of(f"pairs[{i}].question", given=question, allowed=allowed)
    if not passage.text.strip():
        allowed = "a passage with text"
        raise InputError.of(f"pairs[{i}].passage.text", given=passage.text, allowed=allowed)
    return question, passage
