"""Show what was kept of a passage between what stands around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.words import number

AROUND = 240  # characters shown on either side of what was kept


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold a passage as the page shows it: the part kept, and what stands around it."""

    name: str
    score: str
    before: str
    kept: str
    after: str

    @property
    def whole(self) -> bool:
        """Say whether nothing of the passage stands around what was kept."""
        return not self.before.strip() and not self.after.strip()


def excerpts(given: Iterable[Any], room: int) -> tuple[list[Kept], int, int]:
    """Give as many as fit, how many characters they take, and how many were left out."""
    kept, used, count = [], 0, 0
    for each in given:
        count += 1
        shown = _of(each) if isinstance(each, Mapping) else None
        size = 0 if shown is None else len(shown.before) + len(shown.kept) + len(shown.after)
        if shown is not None and used + size <= room:
            kept.append(shown)
            used += size
    return kept, used, count - len(kept)


def _of(excerpt: Row) -> Kept | None:
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
    return Kept(name, score, before, text[start:end], after)


def many(value: object) -> list[Any]:
    """Give a list as it is, and nothing for anything else."""
    return list(value) if isinstance(value, list | tuple) else []
