"""What a method found for a question: the value of every flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Protocol

from fitrag_integrations.core.checks import Checked, Strings, Text, check_is, check_many
from fitrag_integrations.core.html import Html, card
from fitrag_integrations.core.record import Record, check_mapping
from fitrag_integrations.core.show import lines_html, shortened
from fitrag_integrations.errors import InputError
from fitrag_integrations.values.decision import Action, RetrievalDecision
from fitrag_integrations.values.excerpt import Excerpt, by_number, place, sources_html
from fitrag_integrations.values.prompt import default_template
from fitrag_integrations.values.selected import Selected, selected_lines

SHOWN = 5  # excerpts named in a line


class Template(Protocol):
    """Turn a context into the text for a language model."""

    def render(self, context: Context, /) -> str:
        """Write the prompt."""
        ...


def check_action(field: str, value: Any) -> Action:
    """Require an action, or the name of one."""
    try:
        return Action(value)
    except ValueError:
        allowed = " or ".join(repr(action.value) for action in Action)
        raise InputError.of(field, given=value, allowed=allowed) from None


@dataclass(frozen=True, slots=True)
class Context(Record, Checked):
    """Result of every method for one question.

    Args:
        question: The question.
        excerpts: What was kept, in the order the prompt shows it.
        queries: Queries retrieved for besides the question.
        decision: Whether to retrieve; None where the method does not decide.
        action: CRAG's action, where there is one.
        draft: An answer or document written on the way.
        notes: What was degraded or left out, in plain sentences.
        method: Name of the method.
        details: The method's numbers (thresholds, token counts) as plain Python; not hashed.
        selection: A row for every retrieved document and every dropped part of one, with the
            reason; not compared.
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

    def prompt(self, template: Template | None = None) -> str:
        """Return the prompt for the language model.

        Args:
            template: One of ``fitrag_integrations.methods.prompts``, or any object with
                ``render(context)``. None is FIT-RAG's retrieval prompt (section 4.5), its
                no-retrieval prompt where a gate decided not to retrieve, and ``NOTHING_FOUND``
                where nothing was kept.
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

    def explain(self) -> str:
        """Return a few lines: what was decided, what was kept and what was left out."""
        return "\n".join([f"question: {self.question}", *decided(self), *noted(self)])

    def _repr_html_(self) -> Html:
        """Show the decision, and every passage whole with what was kept marked; all escaped."""
        lines = lines_html([*decided(self), *noted(self)])
        return card(self.question, lines, sources_html(self.excerpts))


def decided(context: Context) -> Iterator[str]:
    """Return what a method decided and what it kept."""
    if context.decision is not None:
        yield f"decision: {context.decision}"
    if context.action is not None:
        yield f"action: {context.action}{_graded(context)}"
    if context.queries:
        yield f"queries: {shortened('; '.join(context.queries))}"
    yield f"kept {len(context.excerpts)} excerpts{_kept(context)}"


def noted(context: Context) -> Iterator[str]:
    """Yield what was degraded, and every document and part left out, with the reason."""
    yield from (f"note: {note}" for note in context.notes)
    yield from selected_lines(context.selection)


def _graded(context: Context) -> str:
    """Return the number and thresholds that decided the action, if the details have them."""
    grades, thresholds = context.details.get("grades"), context.details.get("thresholds")
    if not grades or not isinstance(thresholds, Mapping):
        return ""
    by, value = "best grade", max(grades)
    judged = context.details.get("list")
    if isinstance(judged, Mapping):
        by, value, thresholds = "chance of the list", judged.get("chance", 0.0), judged
    upper, lower = thresholds.get("upper", 0.0), thresholds.get("lower", 0.0)
    return f", {by} {value:.2f}, thresholds {upper:.2f} and {lower:.2f}"


def _kept(context: Context) -> str:
    places = list(map(place, context.excerpts[:SHOWN]))
    more = len(context.excerpts) - SHOWN
    return ": " + "; ".join(places + [f"and {more} more"] * (more > 0)) if places else ""
