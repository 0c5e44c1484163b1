"""Keep of excerpts, best first, what a prompt has room for; the best is narrowed, never dropped.

Counted on the very text a prompt shows, numbers and titles included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fitrag_integrations.flow import Flow
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens, counted
from fitrag_integrations.types import Excerpt
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.windows import fit

Scored: TypeAlias = Callable[[Sequence[Excerpt]], Flow[list[Excerpt]]]
_CLAUSE = re.compile(r"[^,;:()–—\n]+[,;:()–—\n]*")


@dataclass(frozen=True)
class Fitted:
    """Hold the excerpts that fit, and what there is to note."""

    kept: list[Excerpt]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """Bound what excerpts cost: by ``max_tokens``, and by a ``share`` of what all would.

    The share, in tokens, gives way to the best sentence where that alone costs more; ``max_tokens``
    does not. ``limit`` names what bounds, for the notes. ``count`` None estimates.
    """

    max_tokens: int | None = None
    share: int | None = None
    limit: str = ""
    count: TokenCounter | None = None
    split: SentenceSplitter | None = None
    _known: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def most(self) -> int | None:
        """Give the tighter bound; None where there is none."""
        return min((n for n in (self.max_tokens, self.share) if n is not None), default=None)

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts as a prompt shows them."""
        return self._count(render_excerpts(excerpts))

    def _count(self, text: str) -> int:
        """Count a text once, however often it is asked about."""
        if text not in self._known:
            self._known[text] = counted(text, self.count or approximate_tokens)
        return self._known[text]

    def fits(self, excerpts: Sequence[Excerpt]) -> bool:
        """Tell whether excerpts cost no more than either bound."""
        return self.most is None or self.cost(excerpts) <= self.most

    def fitted(self, excerpts: Sequence[Excerpt], ask: Scored | None = None) -> Flow[Fitted]:
        """Keep the longest prefix that fits; the next, where it is too long alone, is narrowed.

        ``ask`` scores its sentences and clauses; without it the beginning is kept.
        """
        kept = fit(excerpts, max_tokens=self.most, count_tokens=self._count)
        notes = []
        if len(kept) < len(excerpts) and not self.fits([following := excerpts[len(kept)]]):
            part = yield from self._narrowed(following, kept, ask)
            if part is not None:
                kept.append(part)
                which = "the best excerpt" if len(kept) == 1 else f"excerpt {len(kept)}"
                if self.fits(kept):
                    notes.append(f"{which} was narrowed to fit {self.limit}")
                else:
                    notes.append(f"the best sentence alone costs more than {self.limit}")
        if left := len(excerpts) - len(kept):
            notes.append(f"{left} of {len(excerpts)} excerpts left out by {self.limit}")
        if excerpts and not kept:
            notes.append(f"nothing to refer to: not one word fits {self.limit}")
        return Fitted(kept, tuple(notes))

    def _narrowed(
        self, excerpt: Excerpt, before: Sequence[Excerpt], ask: Scored | None
    ) -> Flow[Excerpt | None]:
        """Narrow an excerpt to whole sentences; the first of all, if need be, to clauses or words.

        Of the outer parts the worse goes, until the rest fits.
        """
        if excerpt.lead and self.fits([*before, bare := replace(excerpt, lead=())]):
            return bare
        for spans in (self.split or split_sentences, clauses):
            parts = [
                replace(excerpt, start=excerpt.start + start, end=excerpt.start + end)
                for start, end in spans(excerpt.body)
            ]
            if len(parts) > 1:
                if ask is not None:
                    parts = yield from ask(parts)
                excerpt = self._without_ends(parts, before)
            if self.fits([*before, excerpt]):
                return excerpt
            if before:
                return None  # a fragment beside better ones is not worth its tokens
            if self.max_tokens is None or self.cost([excerpt]) <= self.max_tokens:
                return excerpt
        return self._first_words(excerpt) or self._first_words(replace(excerpt, lead=()))

    def _without_ends(self, parts: Sequence[Excerpt], before: Sequence[Excerpt]) -> Excerpt:
        first, last = 0, len(parts) - 1
        while first < last and not self.fits([*before, _joined(parts[first : last + 1])]):
            if parts[first].score < parts[last].score:
                first += 1
            else:
                last -= 1
        return _joined(parts[first : last + 1])

    def _first_words(self, excerpt: Excerpt) -> Excerpt | None:
        ends = [word.end() for word in re.finditer(r"\S+", excerpt.body)]
        begun = [replace(excerpt, end=excerpt.start + end) for end in ends]
        most = self.max_tokens or 0
        fitting = [part for part in begun if self.cost([part]) <= most]
        return fitting[-1] if fitting else None


def clauses(text: str) -> list[tuple[int, int]]:
    """Give [start, end) of the clauses of a text: what stands between its marks."""
    found = [(m.start(), m.end(), m[0]) for m in _CLAUSE.finditer(text)]
    return [
        (start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))
        for start, end, piece in found
        if piece.strip()
    ]


def _joined(parts: Sequence[Excerpt]) -> Excerpt:
    best = max(parts, key=lambda part: part.score)
    return replace(best, start=parts[0].start, end=parts[-1].end)
