"""Result of a method for one question: the value of every flow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Protocol, cast

from fitrag_integrations.core.checks import (
    Checked,
    Share,
    Strings,
    Text,
    check_is,
    check_many,
    check_one,
)
from fitrag_integrations.core.record import Record, check_mapping
from fitrag_integrations.core.show import Html, Visible, card, folded, lines_html, shortened
from fitrag_integrations.values.decision import Action, RetrievalDecision
from fitrag_integrations.values.excerpt import Excerpt, by_number, place, sources_html
from fitrag_integrations.values.passage import named
from fitrag_integrations.values.prompt import default_template
from fitrag_integrations.values.selected import Selected, dropped_lines, dropped_summary

SHOWN = 5  # excerpts named in a line


class Explains(Visible):
    """Mixin of a result for a question that describes itself line by line."""

    __slots__ = ()

    @abstractmethod
    def trace_lines(self, *, dropped: bool = False) -> Iterator[str]:
        """Yield the lines that `explain` shows under the question."""

    def explain(self, *, dropped: bool = False) -> str:
        """Return a few lines: what was kept, what was decided and what was left out.

        Args:
            dropped: List everything that was dropped, with the reason.
        """
        asked = f"question: {cast(Any, self).question}"
        return "\n".join([asked, *self.trace_lines(dropped=dropped)])


class Template(Protocol):
    """Template that renders a context as the prompt for a language model."""

    def render(self, context: Context, /) -> str:
        """Render the prompt."""


def check_action(field: str, value: Any) -> Action:
    """Require an action, or the name of one."""
    return Action(str(check_one(field, value, [action.value for action in Action])))


@dataclass(frozen=True, slots=True)
class Context(Explains, Record, Checked):
    """Result of every method for one question.

    Args:
        question: The question.
        excerpts: Excerpts kept, in the order in which the prompt shows them.
        queries: Further queries that were retrieved for.
        decision: Whether to retrieve; None if the method does not decide.
        action: CRAG's action, or None.
        draft: Answer or document that a language model wrote.
        notes: Sentences on what was degraded or left out.
        method: Name of the method.
        details: The method's numbers (thresholds, token counts) as plain Python; not hashed.
        selection: A row for every retrieved document and every dropped part of one, with the
            reason; not compared.
        answerable: Probability that one of the passages answers the question, in [0, 1]; None if no
            calibrated model judged them. Nothing is left out because of it.
    """

    _nested: ClassVar = {
        "excerpts": Excerpt,
        "decision": RetrievalDecision,
        "selection": Selected,
    }

    question: Text
    excerpts: Annotated[tuple[Excerpt, ...], partial(check_many, kind=Excerpt)] = ()
    queries: Strings = ()
    decision: Annotated[RetrievalDecision, partial(check_is, kind=RetrievalDecision)] | None = None
    action: Annotated[Action, check_action] | None = None
    draft: Text | None = None
    notes: Strings = ()
    method: Text = ""
    details: Annotated[Mapping[str, Any], check_mapping] = field(default_factory=dict, hash=False)
    selection: Annotated[tuple[Selected, ...], partial(check_many, kind=Selected)] = field(
        default=(), compare=False, repr=False
    )
    answerable: Share | None = None

    def prompt(self, template: Template | None = None) -> str:
        """Return the prompt for the language model.

        Args:
            template: One of ``fitrag_integrations.methods.prompts``, or any object with
                ``render(context)``. Defaults to FIT-RAG's retrieval prompt (section 4.5), to its
                no-retrieval prompt if a gate decided not to retrieve, and to ``NOTHING_FOUND`` if
                nothing was kept.
        """
        return (default_template(self) if template is None else template).render(self)

    def __str__(self) -> str:
        """Return question, verdict and how much was kept in one line."""
        passages = len(by_number(self.excerpts))
        parts = [f"kept {len(self.excerpts)} excerpts of {passages} passages"]
        if self.action is not None:
            parts.insert(0, f"action {self.action}")
        if self.decision is not None:
            parts.insert(0, "retrieve" if self.decision.retrieve else "do not retrieve")
        if self.notes:
            parts.append(f"{len(self.notes)} notes")
        return f"{shortened(self.question)} -> {', '.join(parts)}"

    def first(self, k: int | None) -> Context:
        """Return the context of the first `k` excerpts; the others are dropped by `k`.

        Args:
            k: Maximum number of excerpts; None keeps all.
        """
        if k is None or len(self.excerpts) <= k:
            return self
        kept, left, limit = self.excerpts[:k], self.excerpts[k:], ("k", f"k={k}")
        shown = {(one.passage.id, named(one.passage)) for one in kept}
        gone = {(one.passage.id, named(one.passage)): one.score for one in left}
        rows = [
            replace(row, kept=False, reason=limit[0], detail=limit[1])
            if row.kept and row.whole and (row.passage, row.name) in gone.keys() - shown
            else row
            for row in self.selection
        ]
        for one in left:
            if (one.start, one.end) != (0, len(one.passage.text)):
                where = (one.passage.id, named(one.passage), -1, one.start, one.end, one.score)
                rows.append(Selected(*where, False, *limit, whole=False))
        details = {name: self.details[name] for name in self.details if name != "tokens_out"}
        return replace(self, excerpts=kept, details=details, selection=tuple(rows))

    def trace_lines(self, *answer: str, dropped: bool = False) -> Iterator[str]:
        """Yield what was kept, then an ``answer``, then what was degraded or left out.

        Args:
            answer: Lines on the answer to show after what was kept.
            dropped: List everything dropped instead of how much it is.
        """
        yield from decided(self)
        yield from (f"  {place(one)}: {shortened(one.text)}" for one in self.excerpts[:SHOWN])
        if (more := len(self.excerpts) - SHOWN) > 0:
            yield f"  and {more} more"
        yield from answer
        yield from (f"note: {note}" for note in self.notes)
        if dropped:
            yield from dropped_lines(self.selection)
        elif summary := dropped_summary(self.selection):
            yield f"{summary}; explain(dropped=True) lists them"

    def _repr_html_(self) -> Html:
        """Show every passage whole with what was kept marked; drops unfold; all is escaped."""
        head, tail = lines_html(decided(self)), lines_html(f"note: {note}" for note in self.notes)
        parts = [head, sources_html(self.excerpts), tail]
        if summary := dropped_summary(self.selection):
            parts.append(folded(summary, lines_html(dropped_lines(self.selection))))
        return card(self.question, *parts)


def decided(context: Context) -> Iterator[str]:
    """Yield what a method decided and how much it kept."""
    if context.decision is not None:
        yield f"decision: {context.decision}"
    if context.action is not None:
        yield f"action: {context.action}{_graded(context)}"
    if context.answerable is not None:
        yield f"answerable: {context.answerable:.2f}"
    if context.queries:
        yield f"queries: {shortened('; '.join(context.queries))}"
    tokens_in, tokens_out = map(context.details.get, ("tokens_in", "tokens_out"))
    yield f"kept {len(context.excerpts)} excerpts{saved(tokens_in, tokens_out)}"


def saved(tokens_in: int | None, tokens_out: int | None) -> str:
    """Return what a compression saves, after a comma; empty if no tokens were counted."""
    if not tokens_in or tokens_out is None:
        return ""
    share, less = tokens_out / tokens_in, tokens_in - tokens_out
    return f", {tokens_out} of {tokens_in} tokens, {share:.0%}, {less} saved"


def _graded(context: Context) -> str:
    """Return the number and thresholds that decided the action, if the details have them."""
    grades, thresholds = context.details.get("grades"), context.details.get("thresholds")
    if not grades or not isinstance(thresholds, Mapping):
        return ""
    upper, lower = thresholds.get("upper", 0.0), thresholds.get("lower", 0.0)
    return f", best grade {max(grades):.2f}, thresholds {upper:.2f} and {lower:.2f}"
