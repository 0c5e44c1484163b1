"""The reasons of a compression, as text and as HTML, and as rows for a log.

The reasons are the rows that the run itself recorded (`Context.selection`); nothing is estimated
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, Protocol, Self

from fitrag_integrations.core.checks import Checked, Strings, check_many
from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.core.show import Html, block, card, folded, lines_html, marked, shortened
from fitrag_integrations.flow import Flow
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.context import Explains, saved
from fitrag_integrations.values.excerpt import place
from fitrag_integrations.values.passage import named
from fitrag_integrations.values.selected import Selected, dropped_summary

Weighed = Selected


class Step(Protocol):
    """A step of `methods.fitrag`."""

    def context(self, question: str, passages: Sequence[Passage], /) -> Flow[Context]:
        """Return the flow that ends in what is kept of the passages."""


@dataclass(frozen=True, slots=True)
class Compression(Explains, Record, Checked):
    """Result of a compressor or reranker for a question, with the reasons.

    Args:
        question: The question.
        passages: The input passages, in order.
        kept: The excerpts kept, in the order of the prompt.
        weighed: A row for each excerpt kept, document dropped and part dropped, best first.
        notes: Notes on what was degraded or left out.
        details: The compressor's numbers; `tokens_in` and `tokens_out` if it counts them.
        answerable: Probability that one of the passages answers, as in `Context`.
    """

    _nested: ClassVar = {"passages": Passage, "kept": Excerpt, "weighed": Selected}

    question: str
    passages: Annotated[tuple[Passage, ...], partial(check_many, kind=Passage)]
    kept: Annotated[tuple[Excerpt, ...], partial(check_many, kind=Excerpt)]
    weighed: Annotated[tuple[Selected, ...], partial(check_many, kind=Selected)]
    notes: Strings = ()
    details: Row = field(default_factory=dict, hash=False)
    answerable: float | None = None

    @classmethod
    def of(cls, context: Context, passages: Sequence[Passage]) -> Self:
        """Build a compression from the context of a run over these passages.

        Args:
            context: The context that a compressor's flow ended in.
            passages: The passages it was given, in their order.
        """
        at = {id(passage): n for n, passage in reversed(list(enumerate(passages)))}
        rows = [row for row in context.selection if not row.kept]
        for one in context.excerpts:
            where = (one.passage.id, named(one.passage), at.get(id(one.passage), -1))
            rows.append(Selected(*where, one.start, one.end, one.score, True, whole=False))
        rows.sort(key=lambda row: (row.score is None, -(row.score or 0.0), not row.kept))
        run = context.notes, context.details, context.answerable
        return cls(context.question, tuple(passages), context.excerpts, tuple(rows), *run)

    @property
    def dropped(self) -> tuple[Selected, ...]:
        """Return the rows of the dropped items, best first."""
        return tuple(one for one in self.weighed if not one.kept)

    def __str__(self) -> str:
        """Return in one line how much was kept and what it saves."""
        return f"{shortened(self.question)} -> {self._counted()}"

    def trace_lines(self, *, dropped: bool = False) -> Iterator[str]:
        """Yield a line for everything kept, and a count of drops by reason, or all of them."""
        if self.answerable is not None:
            yield f"answerable: {self.answerable:.2f}"
        yield self._counted()
        yield from (f"  {place(one)}: {shortened(one.text)}" for one in self.kept)
        yield from (f"note: {note}" for note in self.notes)
        if dropped:
            yield from map(str, self.dropped)
        elif summary := dropped_summary(self.weighed):
            yield f"{summary}; explain(dropped=True) lists them"

    def _repr_html_(self) -> str:
        """Show every passage whole: what was kept marked, passages of which nothing was, grey."""
        tail = lines_html(f"note: {note}" for note in self.notes)
        order = sorted(self.passages, key=lambda one: all(e.passage != one for e in self.kept))
        return card(self.question, lines_html([self._counted()]), *map(self._drawn, order), tail)

    def _counted(self) -> str:
        kept = f"kept {len(self.kept)} excerpts of {len(self.passages)} passages"
        return kept + saved(*map(self.details.get, ("tokens_in", "tokens_out")))

    def _drawn(self, passage: Passage) -> Html:
        """Show one passage under the rows of it and of its parts."""
        lines = lines_html([str(row) for row in self.weighed if row.passage == passage.id])
        spans = [span for one in self.kept if one.passage == passage for span in one.spans]
        title = f"{'kept' if spans else 'dropped'}: {named(passage)}"
        text = block(marked(passage.text, merge_spans(passage.text, spans), grey=True))
        return folded(title, lines, text, shown=bool(spans))


def explained(step: Step, question: str, passages: Sequence[Passage]) -> Flow[Compression]:
    """Return the flow that runs a step and ends in its `Compression`.

    Args:
        step: Step to run.
        question: Question.
        passages: Passages of the step.
    """
    context = yield from step.context(question, passages)
    return Compression.of(context, passages)
