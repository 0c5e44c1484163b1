"""What an answer's citations resolve to: numbers, and under them places in sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from fitrag_integrations.core.html import block, card, folded, marked
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import lines_html, shortened
from fitrag_integrations.types import Excerpt
from fitrag_integrations.values.excerpt import excerpts_html
from fitrag_integrations.values.passage import named, origin_of


@dataclass(frozen=True, slots=True)
class Span(Record):
    """A cited place: `text` is the characters [start, end) of the text that `passage_id` names.

    `title` is that of the passage, `source` the file or address that text is from, as its metadata
    says, and may be empty.
    """

    passage_id: str
    start: int
    end: int
    text: str
    title: str = ""
    source: str = ""

    @classmethod
    def of(cls, excerpt: Excerpt) -> Span:
        """Find the place of `excerpt` in what its passage was cut from, if that is a piece."""
        passage = excerpt.passage
        name, begin = origin_of(passage)
        places = (begin + excerpt.start, begin + excerpt.end)
        return cls(name, *places, excerpt.text, passage.title, passage.source)

    def __str__(self) -> str:
        """Return the place and its first words in one line."""
        name = self.title or self.source or self.passage_id
        return f"{name} [{self.start}:{self.end}]: {shortened(self.text)}"


@dataclass(frozen=True, slots=True)
class Citation(Record):
    """One number that an answer cites, what it stands for, and where the answer cites it.

    `excerpts` are those the prompt showed under `number`, in the order of the passage and joined
    where they ran on; `places` are the [start, end) of the marks in the answer.
    """

    _nested: ClassVar = {"excerpts": Excerpt}

    number: int
    excerpts: tuple[Excerpt, ...]
    places: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Convert lists, as JSON has them, to tuples."""
        object.__setattr__(self, "excerpts", tuple(self.excerpts))
        object.__setattr__(self, "places", tuple((start, end) for start, end in self.places))

    @property
    def spans(self) -> tuple[Span, ...]:
        """The places cited, as plain values."""
        return tuple(map(Span.of, self.excerpts))

    def __str__(self) -> str:
        """Return number and places in one line."""
        return f"[{self.number}] " + "; ".join(map(str, self.spans))

    def _repr_html_(self) -> str:
        """Show the source whole with the cited words marked; all of it is escaped."""
        return card(str(self), excerpts_html(self.excerpts))


@dataclass(frozen=True, slots=True)
class Cited(Record):
    """An answer with its citations, in the order of their first use.

    `unknown` are the numbers it cites under which nothing stood, in order and each once; `shown` is
    how many numbers there were.
    """

    _nested: ClassVar = {"citations": Citation}

    answer: str
    citations: tuple[Citation, ...]
    unknown: tuple[int, ...] = ()
    shown: int = 0

    def __post_init__(self) -> None:
        """Convert lists, as JSON has them, to tuples."""
        for name in ("citations", "unknown"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def uncited(self) -> tuple[int, ...]:
        """The numbers shown that the answer does not cite."""
        cited = {citation.number for citation in self.citations}
        return tuple(n for n in range(1, self.shown + 1) if n not in cited)

    def __str__(self) -> str:
        """Return in one line what is cited, and which numbers are unknown."""
        wrong = f", unknown {_listed(self.unknown)}" if self.unknown else ""
        numbers = _listed(citation.number for citation in self.citations) or "nothing"
        return f"{shortened(self.answer)} -> cites {numbers} of {self.shown}{wrong}"

    def explain(self) -> str:
        """Return answer, citations, unknown numbers and uncited passages, one per line."""
        cited = map(str, self.citations)
        return "\n".join([f"answer: {self.answer}", *cited, *self._unresolved()])

    def _unresolved(self) -> Iterator[str]:
        if self.unknown:
            yield f"unknown: {_listed(self.unknown)} of {self.shown} shown"
        if self.uncited:
            yield f"not cited: {_listed(self.uncited)}"

    def _repr_html_(self) -> str:
        """Show the answer, its marks marked, over the sources it cites; all of it is escaped."""
        places = [place for citation in self.citations for place in citation.places]
        sources = [
            folded(f"[{one.number}] {named(one.excerpts[0].passage)}", excerpts_html(one.excerpts))
            for one in self.citations
        ]
        answer = block(marked(self.answer, places))
        return card(str(self), answer, *sources, lines_html(self._unresolved()))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)
