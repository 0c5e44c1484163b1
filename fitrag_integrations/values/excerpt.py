"""A part of a passage, by its offsets; and excerpts drawn in the passages they stand in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fitrag_integrations.core.checks import check_is, check_number, check_whole
from fitrag_integrations.core.html import Html, block, card, folded, marked
from fitrag_integrations.core.record import Record, remade
from fitrag_integrations.core.show import lines_html, shortened
from fitrag_integrations.values.passage import Passage, named
from fitrag_integrations.values.score import BiLabelScore


@dataclass(frozen=True, slots=True)
class Excerpt(Record):
    """Point at ``passage.text[start:end]``: a sub-document, a strip or a whole scored passage.

    Offsets count characters, ``0 <= start <= end <= len(passage.text)``. ``score`` is whatever
    the method ranked by, higher is better; ``labels`` are the scorer's, where one was asked.
    """

    _nested: ClassVar = {"passage": Passage, "labels": BiLabelScore}

    passage: Passage
    start: int
    end: int
    score: float = 0.0
    labels: BiLabelScore | None = None

    def __post_init__(self) -> None:
        length = len(check_is("Excerpt.passage", self.passage, Passage).text)
        end = check_whole("Excerpt.end", self.end, low=0, high=length)
        start = check_whole("Excerpt.start", self.start, low=0, high=end)
        if self.labels is not None:
            check_is("Excerpt.labels", self.labels, BiLabelScore)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", end)
        object.__setattr__(self, "score", check_number("Excerpt.score", self.score))

    @classmethod
    def whole(
        cls, passage: Passage, *, score: float = 0.0, labels: BiLabelScore | None = None
    ) -> Excerpt:
        """Cover a passage from its first to its last character."""
        return cls(
            passage, 0, len(check_is("Excerpt.passage", passage, Passage).text), score, labels
        )

    def judged(self, score: float, labels: BiLabelScore | None = None) -> Excerpt:
        """Give the same place with a score that was checked, and its labels."""
        return remade(self, score=score, labels=labels)

    @property
    def text(self) -> str:
        """Slice the source; it cannot drift from it."""
        return self.passage.text[self.start : self.end]

    def as_passage(self) -> Passage:
        """Make the passage a scorer reads for this excerpt: its text, the title kept."""
        source = self.passage
        name = f"{source.id}#{self.start}-{self.end}"
        return remade(source, id=name, text=self.text, source="", metadata={})

    def to_dict(self) -> dict[str, Any]:
        """Give every field and, for the reader's sake, ``text``; ``from_dict`` slices it anew."""
        # not super(): a slotted dataclass is a second class, which the bare form does not find
        return {**Record.to_dict(self), "text": self.text}

    def __str__(self) -> str:
        """Tell source, offsets, score and first words in one line."""
        return f"{place(self)}: {shortened(self.text)}"

    def explain(self) -> str:
        """Tell the place, the labels and the text, a line each."""
        labels = [] if self.labels is None else [f"labels: {self.labels}"]
        return "\n".join([f"excerpt: {place(self)}", *labels, f"text: {self.text}"])

    def _repr_html_(self) -> Html:
        """Show the whole passage with the excerpt marked; all of it is escaped."""
        labels = () if self.labels is None else (lines_html([str(self.labels)]),)
        return card(place(self), *labels, excerpts_html([self]))


def place(excerpt: Excerpt) -> str:
    """Name an excerpt by its source, its offsets and its score."""
    return f"{named(excerpt.passage)} [{excerpt.start}:{excerpt.end}] {excerpt.score:.2f}"


def by_number(excerpts: Iterable[Excerpt]) -> list[list[Excerpt]]:
    """Group excerpts by the number under which a prompt shows them: one for each passage."""
    groups: dict[tuple[str, str, str], list[Excerpt]] = {}
    for excerpt in excerpts:
        passage = excerpt.passage
        groups.setdefault((passage.id, passage.title, passage.text), []).append(excerpt)
    return list(groups.values())


def excerpts_html(group: Sequence[Excerpt]) -> Html:
    """Show the passage of these excerpts whole, the excerpts marked; several one by one."""
    drawn = [
        block(marked(excerpts[0].passage.text, [(e.start, e.end) for e in excerpts]))
        for excerpts in by_number(group)
    ]
    return Html("".join(drawn))


def sources_html(excerpts: Sequence[Excerpt], *, shown: bool = True) -> Html:
    """Show every passage whole, under its number in the prompt, with its excerpts marked."""
    drawn = []
    for number, group in enumerate(by_number(excerpts), start=1):
        places = ", ".join(f"[{e.start}:{e.end}] {e.score:.2f}" for e in group)
        title = f"[{number}] {named(group[0].passage)}: {places}"
        drawn.append(folded(title, excerpts_html(group), shown=shown))
    return Html("".join(drawn))
