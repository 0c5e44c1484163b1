"""Parts of passages, by their offsets, and their display inside the passages."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from fitrag_integrations.core.checks import check_is, check_number, check_whole
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.record import Record, remade
from fitrag_integrations.core.show import Html, block, card, folded, lines_html, marked, shortened
from fitrag_integrations.errors import InputError
from fitrag_integrations.text.spans import gap_between, joined, merge_spans
from fitrag_integrations.values.passage import Passage, is_web, named, origin_of
from fitrag_integrations.values.score import BiLabelScore

K = TypeVar("K", bound=Hashable)
SPAN: Callable[[Any], tuple[int, int]] = attrgetter("start", "end")


@dataclass(frozen=True, slots=True)
class Excerpt(Record):
    """Part of a passage: a sub-document, a strip or a whole scored passage.

    Args:
        passage: The passage that the offsets count in.
        start: First character, ``0 <= start <= end <= len(passage.text)``.
        end: Character after the last.
        score: Score that the method ranked by; higher is better.
        labels: The scorer's labels, if a scorer was called.
        lead: Spans ``(start, end)`` of the same text that are shown before the excerpt: the heading
            or the lead-in line of a list item, the header row of a table row, the lead-in line of a
            code block. In order, and before ``start``.

    Example:
        >>> table = Passage("ports", "name\\tport\\nweb\\t8080\\nmetrics\\t9464")
        >>> print(Excerpt(table, 19, 31, lead=((0, 9),)).text)
        name	port
        …
        metrics	9464
    """

    _nested: ClassVar = {"passage": Passage, "labels": BiLabelScore}

    passage: Passage
    start: int
    end: int
    score: float = 0.0
    labels: BiLabelScore | None = None
    lead: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if (
            isinstance(self.passage, Passage)
            and type(self.start) is type(self.end) is int
            and 0 <= self.start <= self.end <= len(self.passage.text)
            and type(self.score) is float
            and -math.inf < self.score < math.inf
            and (self.labels is None or type(self.labels) is BiLabelScore)
            and self.lead == ()
        ):
            return  # as nearly all are
        length = len(check_is("Excerpt.passage", self.passage, Passage).text)
        end = check_whole("Excerpt.end", self.end, low=0, high=length)
        start = check_whole("Excerpt.start", self.start, low=0, high=end)
        if self.labels is not None:
            check_is("Excerpt.labels", self.labels, BiLabelScore)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", end)
        object.__setattr__(self, "score", check_number("Excerpt.score", self.score))
        if self.lead != ():
            object.__setattr__(self, "lead", _checked_lead(self.lead, start))

    @classmethod
    def whole(
        cls, passage: Passage, *, score: float = 0.0, labels: BiLabelScore | None = None
    ) -> Excerpt:
        """Build the excerpt that covers a whole passage.

        Args:
            passage: The passage.
            score: Score that the method ranked by.
            labels: The scorer's labels, if a scorer was called.
        """
        return cls(passage, 0, len(getattr(passage, "text", "")), score, labels)

    @property
    def text(self) -> str:
        """Return ``passage.text[start:end]``, after its lead if it has one.

        Adjacent spans are joined; other gaps are marked by an ellipsis.
        """
        return joined(self.passage.text, self.spans) if self.lead else self.body

    @property
    def body(self) -> str:
        """Return ``passage.text[start:end]`` without the lead."""
        return self.passage.text[self.start : self.end]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return the spans of the lead and, last, that of the excerpt itself."""
        return (*self.lead, (self.start, self.end))

    def located(self, start: int, end: int) -> tuple[int, int]:
        """Return the places in the passage of the characters ``[start, end)`` of ``text``.

        A place inside a marked gap moves to the span after it.

        Args:
            start: First character in ``text``.
            end: Character after the last.
        """
        if not self.lead:
            return self.start + start, self.start + end
        at, places = 0, []
        spans = merge_spans(self.passage.text, self.spans)
        for n, (first, last) in enumerate(spans):
            at += len(gap_between(self.passage.text, spans[n - 1][1], first)) if n else 0
            places.append((at, first, last))
            at += last - first
        begin = next((max(f, f + start - a) for a, f, e in places if start < a + e - f), self.end)
        after = next((max(f, f + end - a) for a, f, e in places if end <= a + e - f), self.end)
        return min(begin, after), after

    def as_passage(self) -> Passage:
        """Make the passage a scorer reads for this excerpt: its text, the title kept."""
        source = self.passage
        name = f"{source.id}#{self.start}-{self.end}"
        return remade(source, id=name, text=self.text, source="", metadata={})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, and the excerpt's text.

        An empty ``lead`` is left out. ``from_dict`` ignores ``text``.
        """
        # not super(): a slotted dataclass is a second class, which the bare form does not find
        row = {**Record.to_dict(self), "text": self.text}
        return row if self.lead else {name: row[name] for name in row if name != "lead"}

    def __str__(self) -> str:
        """Return source, offsets, score and first words in one line."""
        return f"{place(self)}: {shortened(self.text)}"

    def explain(self) -> str:
        """Return the place, the labels and the text, one per line."""
        labels = [] if self.labels is None else [f"labels: {self.labels}"]
        return "\n".join([f"excerpt: {place(self)}", *labels, f"text: {self.text}"])

    def _repr_html_(self) -> Html:
        """Show the whole passage with the excerpt marked; all of it is escaped."""
        labels = () if self.labels is None else (lines_html([str(self.labels)]),)
        return card(place(self), *labels, excerpts_html([self]))


def _checked_lead(lead: object, before: int) -> tuple[tuple[int, int], ...]:
    """Check that spans are in order and end before a place; JSON has lists for tuples."""
    checked, at = [], 0
    for span in lead if isinstance(lead, list | tuple) else [lead]:
        if not (isinstance(span, list | tuple) and len(span) == 2):
            raise InputError.of("Excerpt.lead", given=lead, allowed="(start, end) pairs")
        end = check_whole("Excerpt.lead", span[1], low=at, high=before)
        checked.append((check_whole("Excerpt.lead", span[0], low=at, high=end), end))
        at = end
    return tuple(checked)


def place(excerpt: Excerpt) -> str:
    """Return the source, the offsets and the score of an excerpt."""
    return f"{named(excerpt.passage)} [{excerpt.start}:{excerpt.end}] {excerpt.score:.2f}"


def by_number(excerpts: Iterable[Excerpt]) -> list[list[Excerpt]]:
    """Group excerpts by the number under which a prompt shows them, one number per passage."""
    return [*grouped(excerpts, attrgetter("passage.id", "passage.title", "passage.text")).values()]


def by_origin(excerpts: Iterable[Excerpt], *, exact: bool = False) -> list[list[Excerpt]]:
    """Group excerpts by the text they come from, also those that were made documents since.

    Args:
        excerpts: Excerpts.
        exact: As in ``origin_of``.
    """

    def source(one: Excerpt) -> tuple[object, ...]:
        passage = one.passage
        name, _ = origin_of(passage, exact=exact)
        whole = passage.text if name == passage.id else ""
        return name, passage.title, is_web(passage), whole

    return [*grouped(excerpts, source).values()]


def grouped(items: Iterable[T], by: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by a key, in the order in which the keys first appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(by(item), []).append(item)
    return groups


def unique(items: Iterable[T], by: Callable[[T], Hashable]) -> list[T]:
    """Keep the first of items with equal keys."""
    return [some[0] for some in grouped(items, by).values()]


def excerpts_html(group: Sequence[Excerpt]) -> Html:
    """Return HTML of the excerpts' passages, whole, with the excerpts marked."""
    shown = (
        (some[0].passage.text, [at for one in some for at in one.spans])
        for some in by_number(group)
    )
    return Html("".join(block(marked(text, merge_spans(text, at))) for text, at in shown))


def sources_html(excerpts: Sequence[Excerpt]) -> Html:
    """Show every passage whole, under its number in the prompt, with its excerpts marked."""
    drawn = []
    for number, group in enumerate(by_number(excerpts), start=1):
        places = ", ".join(f"[{e.start}:{e.end}] {e.score:.2f}" for e in group)
        title = f"[{number}] {named(group[0].passage)}: {places}"
        drawn.append(folded(title, excerpts_html(group), shown=True))
    return Html("".join(drawn))
