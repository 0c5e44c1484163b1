"""Show what was kept of a passage between what stands around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.words import number

AROUND = 240  # characters shown on either side of what was kept


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold a passage as the page shows it: the part kept, and what stands around it.

    The part kept is in `pieces`, each with whether it is one of the right answers.
    """

    name: str
    score: str
    before: str
    kept: str
    after: str
    pieces: Sequence[tuple[str, bool]]

    @property
    def whole(self) -> bool:
        """Say whether nothing of the passage stands around what was kept."""
        return not self.before.strip() and not self.after.strip()


def excerpts(given: Iterable[Any], gold: Sequence[str], room: int) -> tuple[list[Kept], int, int]:
    """Give as many as fit, how many characters they take, and how many were left out.

    The right answers are `gold`; upper and lower case are one, and an answer is whole words.
    """
    right = sorted(filter(None, map(str.strip, gold)), key=len, reverse=True)
    found = re.compile(
        rf"(?<!\w)({'|'.join(map(re.escape, right)) or '(?!)'})(?!\w)", re.IGNORECASE
    )
    kept, used, count = [], 0, 0
    for each in given:
        count += 1
        shown = _of(each, found) if isinstance(each, Mapping) else None
        size = 0 if shown is None else len(shown.before) + len(shown.kept) + len(shown.after)
        if shown is not None and used + size <= room:
            kept.append(shown)
            used += size
    return kept, used, count - len(kept)


def _of(excerpt: Row, right: re.Pattern[str]) -> Kept | None:
    passage, start, end = (excerpt.get(name) for name in ("passage", "start", "end"))
    if not isinstance(passage, Mapping) or not isinstance(start, int) or not isinstance(end, int):
        return None
    text = str(passage.get("text", ""))
    if not 0 <= start <= end <= len(text):
        return None
    before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
    if start > AROUND:
        before = "… " + before.partition(" ")[2]
    if end + AROUND < len(text):
        after = after.rpartition(" ")[0] + " …"
    name = next((str(passage[k]) for k in ("title", "source", "id") if passage.get(k)), "untitled")
    score = number(excerpt.get("score"))
    kept = text[start:end]
    pieces = [(piece, at % 2 == 1) for at, piece in enumerate(right.split(kept)) if piece]
    return Kept(name, score, before, kept, after, pieces)


def many(value: object) -> list[Any]:
    """Give a list as it is, and nothing for anything else."""
    return list(value) if isinstance(value, list | tuple) else []
