"""What a compression kept and left out, and why: told in lines, and drawn over the passages.

Two steps of this package compress, and both give a `Compression`: FIT-RAG's token reducer, whose
excerpts are windows (section 4.4.2), and CRAG's refinement, whose excerpts are strips (section
4.4). `explaining` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fitrag_integrations.core.html import Html, block, card, folded, marked
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import lines_html, shortened
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.excerpt import place
from fitrag_integrations.values.passage import named


@dataclass(frozen=True, slots=True)
class Reduction:
    """Hold what a reduction kept and what it chose from, each a part of the next.

    `kept` is best first, windows that touch joined; `enough` is what `min_score` and the detector
    left to the token budget, `ranked` the best windows of every passage, best first, `windows` all
    that were scored, in the order of the texts. The tokens are those of a prompt's passages, whole
    and as kept.
    """

    kept: tuple[Excerpt, ...]
    enough: tuple[Excerpt, ...]
    ranked: tuple[Excerpt, ...]
    windows: tuple[Excerpt, ...]
    notes: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class Weighed(Record):
    """Hold one excerpt a compression decided on, and why it was kept or dropped.

    `gap` is its score less that of the last one kept: how far it was from the line, negative for
    most of what was dropped, None where nothing was kept. `tokens` is what its line in the prompt
    costs by itself. It is number `at` of the `of` excerpts its passage was cut into, counted from
    1, and `lead` is how far it is above the best other one of them, None where it is alone.
    """

    _nested: ClassVar = {"excerpt": Excerpt}

    excerpt: Excerpt
    kept: bool
    why: str
    gap: float | None
    tokens: int
    at: int
    of: int
    lead: float | None = None

    def __str__(self) -> str:
        """Tell place, place among its passage's excerpts, reason and gap in one line."""
        lead = "" if self.lead is None else f", {self.lead:+.2f} to the next"
        gap = "" if self.gap is None or self.kept else f", {self.gap:+.2f} to the last kept"
        which = f"number {self.at} of {self.of}{lead}"
        verdict = "kept" if self.kept else "dropped"
        return f"{verdict} {place(self.excerpt)} ({which}), {self.tokens} tokens: {self.why}{gap}"


@dataclass(frozen=True, slots=True)
class Compression(Record):
    """Hold what a compression made of passages for a question.

    `passages` are those given, in their order; `weighed` are the excerpts decided on, best first,
    `kept` those shown; `notes` say what was degraded, and `details` has `tokens_in`, `tokens_out`,
    and the numbers of the compressor.
    """

    _nested: ClassVar = {"passages": Passage, "kept": Excerpt, "weighed": Weighed}

    question: str
    passages: tuple[Passage, ...]
    kept: tuple[Excerpt, ...]
    weighed: tuple[Weighed, ...]
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Take lists, as JSON has them, for tuples."""
        for name in ("passages", "kept", "weighed", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def dropped(self) -> tuple[Weighed, ...]:
        """Give what was weighed and not kept, best first."""
        return tuple(one for one in self.weighed if not one.kept)

    def __str__(self) -> str:
        """Tell in one line how much was kept and what it saves."""
        return (
            f"{shortened(self.question)} -> kept {len(self.kept)} of {len(self.weighed)} excerpts "
            f"of {len(self.passages)} passages, {self._tokens()}"
        )

    def explain(self) -> str:
        """Tell what was kept and why, and what was dropped and by how much, a line each."""
        return "\n".join([f"question: {self.question}", *self.trace_lines()])

    def trace_lines(self) -> Iterator[str]:
        """Tell it for `Traced.explain`, which has told the question."""
        yield self._counted()
        yield from map(str, self.weighed)
        yield from self._noted()

    def _repr_html_(self) -> str:
        """Show every passage whole: what was kept marked, passages of which nothing was, grey."""
        head = lines_html([self._counted(), *self._noted()])
        return card(self.question, head, *map(self._drawn, self.passages))

    def _counted(self) -> str:
        return f"kept {len(self.kept)} of {len(self.weighed)} excerpts, {self._tokens()}"

    def _noted(self) -> Iterator[str]:
        return (f"note: {note}" for note in self.notes)

    def _tokens(self) -> str:
        given, left = self.details.get("tokens_in", 0), self.details.get("tokens_out", 0)
        share = f", {left / given:.0%}" if given else ""
        return f"{left} of {given} tokens{share}, {given - left} saved"

    def _drawn(self, passage: Passage) -> Html:
        """Show one passage under what was decided of it."""
        own = [one for one in self.weighed if one.excerpt.passage == passage]
        spans = [span for one in own if one.kept for span in one.excerpt.spans]
        lines = lines_html(list(map(str, own)) or ["nothing to read, or a repeated text"])
        title = f"{'kept' if spans else 'dropped'}: {named(passage)}"
        text = block(marked(passage.text, spans, grey=True))
        return folded(title, lines, text, shown=bool(spans))
