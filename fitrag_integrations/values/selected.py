"""Reasons why each document and each sentence of a run was kept or dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import shortened
from fitrag_integrations.values.excerpt import Excerpt
from fitrag_integrations.values.passage import Passage, named

SHOWN = 30
"""Rows of documents, and of dropped sentences, that a text shows."""


@dataclass(frozen=True, slots=True)
class Selected(Record):
    """Outcome for one retrieved document, or for one sentence, window or strip of it.

    Args:
        passage: Id of the document.
        name: Its title, source or id.
        at: Its index in the retrieved list; -1 for a document from elsewhere.
        start: First character in the document's text.
        end: Character after the last.
        score: Score that the method ranked by; None if it was not scored.
        kept: Whether it is in the context, whole or in part.
        reason: Empty if it was kept, else the reason: "blank", "blob" (data without words),
            "duplicate", "max_passages", "max_sentences", "refused" (by the scorer or evaluator),
            "top_n", "k", "min_score", "threshold", "per_passage", "detector", "budget", "decision"
            (the question needs no retrieval), "action" (CRAG's), or "method" for any other choice
            of a method.
        detail: The limit, or the copy that was kept instead, in a few words.
        whole: Whether it is a document; False for a part of one.
    """

    passage: str
    name: str
    at: int
    start: int
    end: int
    score: float | None
    kept: bool
    reason: str = ""
    detail: str = ""
    whole: bool = True

    @property
    def why(self) -> str:
        """Return the limit or the copy that was kept instead, else the reason alone."""
        return self.detail or self.reason

    def __str__(self) -> str:
        """Return verdict, place, score and reason in one line."""
        score = "" if self.score is None else f" {self.score:.2f}"
        at = f"{self.at + 1}. " if self.whole and self.at >= 0 else ""
        where = "" if self.whole else f" [{self.start}:{self.end}]"
        why = self.why if self.why.startswith(self.reason) else f"{self.reason}, {self.why}"
        verdict = "kept" if self.kept else "dropped"
        return f"{verdict} {at}{shortened(self.name)}{where}{score}{': ' if why else ''}{why}"


class Selection:
    """Record of what a run drops and why; `rows` returns a `Selected` for each item."""

    def __init__(self) -> None:
        self._found: list[Passage] = []
        self._at: dict[int, int] = {}
        self._documents: dict[int, tuple[str, str]] = {}  # reason and detail, by place
        self._scores: dict[int, float] = {}
        self._dropped: list[tuple[Excerpt, str, str]] = []
        self.counts: Counter[str] = Counter()
        """Number of excerpts dropped, by reason."""

    def add(self, found: Iterable[Passage]) -> int:
        """Add retrieved passages; return the place of the first of them."""
        first = len(self._found)
        for at, passage in enumerate(found, first):
            self._found.append(passage)
            self._at.setdefault(id(passage), at)
        return first

    def drop_at(self, at: int, reason: str, detail: str = "") -> None:
        """Record that the document at a place was dropped; the first reason counts."""
        self._documents.setdefault(at, (reason, detail))

    def scored(self, wholes: Iterable[Excerpt]) -> None:
        """Record the scores of whole documents."""
        for one in wholes:
            if (at := self._at.get(id(one.passage))) is not None:
                self._scores[at] = one.score

    def drop(self, excerpts: Iterable[Excerpt], reason: str, detail: str = "") -> None:
        """Record that documents or parts of them were dropped."""
        for one in excerpts:
            self.counts[reason] += 1
            at = self._at.get(id(one.passage))
            if at is not None and (one.start, one.end) == (0, len(one.passage.text)):
                self.drop_at(at, reason, detail)
                if reason != "refused":  # nothing scored it
                    self._scores.setdefault(at, one.score)
            else:
                self._dropped.append((one, reason, detail))

    def merge(self, other: Selection) -> None:
        """Add the parts that another selection recorded as dropped."""
        self._dropped += other._dropped
        self.counts.update(other.counts)

    def refused(self) -> tuple[str, ...]:
        """Return a note on the items that a scorer or an evaluator refused, if any."""
        count = self.counts["refused"]
        note = f"{count} left out: the scorer refused them, `explain(dropped=True)` has the reasons"
        return (note,) if count else ()

    def first(self, excerpts: Sequence[Excerpt], most: int | None, reason: str) -> list[Excerpt]:
        """Return the first ``most`` excerpts, and record the others as dropped.

        Args:
            excerpts: Excerpts, best first.
            most: How many to keep; None keeps all.
            reason: Name of the limit, e.g. "top_n".
        """
        kept = list(excerpts[:most])
        self.drop(excerpts[len(kept) :], reason, f"{reason}={most}")
        return kept

    def rows(self, kept: Sequence[Excerpt]) -> tuple[Selected, ...]:
        """Return a row for each document, in the order of retrieval, then for each dropped part."""
        shown = {(one.passage.id, one.passage.title, one.passage.text) for one in kept}
        best: dict[int, tuple[Excerpt, str, str]] = {}  # the part that got furthest
        for each in [*self._dropped, *((one, "", "") for one in kept)]:
            at = self._at.get(id(each[0].passage), -1)
            if at not in best or each[1] != best[at][1] or each[0].score > best[at][0].score:
                best[at] = each
        rows = []
        for at, found in enumerate(self._found):
            held = at not in self._documents and (found.id, found.title, found.text) in shown
            part = best.get(at)
            why = self._documents.get(at, part[1:] if part else ("", ""))
            score = self._scores.get(at, part[0].score if part else None)
            where = (found.id, named(found), at, 0, len(found.text), score, held)
            rows.append(Selected(*where, *(("", "") if held else (why[0] or "method", why[1]))))
        for one, reason, detail in self._dropped:
            at, name = self._at.get(id(one.passage), -1), named(one.passage)
            where = (one.passage.id, name, at, one.start, one.end, one.score, False)
            rows.append(Selected(*where, reason, detail, whole=False))
        return tuple(rows)


def dropped_lines(rows: Sequence[Selected]) -> Iterator[str]:
    """Yield a line for each dropped document, then for the best parts that were dropped."""
    for some, kind in zip(_dropped(rows), ("documents", "parts"), strict=True):
        yield from map(str, some[:SHOWN])
        if len(some) > SHOWN:
            yield f"and {len(some) - SHOWN} more {kind}, all in `selection`"


def dropped_summary(rows: Sequence[Selected]) -> str:
    """Return how many documents and parts were dropped for which reason; empty if none was."""
    found = []
    for some, kind in zip(_dropped(rows), ("documents", "parts"), strict=True):
        if some:
            whys = Counter(row.why if "=" in row.why else row.reason for row in some)
            reasons = ", ".join(f"{count} {why}" for why, count in whys.most_common())
            found.append(f"{len(some)} {kind} ({reasons})")
    return "dropped: " + "; ".join(found) if found else ""


def _dropped(rows: Sequence[Selected]) -> tuple[list[Selected], list[Selected]]:
    wholes = [row for row in rows if row.whole and not row.kept]
    parts = [row for row in rows if not row.whole and not row.kept]
    return wholes, sorted(parts, key=lambda row: -(row.score or 0.0))
