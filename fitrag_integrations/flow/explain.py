"""Tell a trace to a reader: one line per step, then what was decided, kept and degraded.

A flow may end in a value of any type. One that has a ``question`` and a method
``trace_lines`` tells its part of the story itself, with the helpers of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from fitrag_integrations.core.html import Html, card, table
from fitrag_integrations.core.show import lines_html, shortened
from fitrag_integrations.types import BiLabelScore, Context
from fitrag_integrations.values.context import decided, noted
from fitrag_integrations.values.excerpt import place
from fitrag_integrations.values.prompt import cut_note

__all__ = [
    "decided",
    "explain",
    "explain_html",
    "noted",
    "place",
    "shortened",
    "step_line",
    "summed",
]


class StepLike(Protocol):
    """What this module reads of a step."""

    @property
    def port(self) -> str: ...
    @property
    def items(self) -> Sequence[Any]: ...
    @property
    def answers(self) -> Sequence[Any]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...


@runtime_checkable
class Telling(Protocol):
    """A value that tells, line by line, what it holds."""

    @property
    def question(self) -> str: ...
    def trace_lines(self) -> Iterable[str]: ...


def explain(steps: Sequence[StepLike], outcome: object) -> str:
    """Write the question, the steps and the outcome, a line each."""
    head = []
    if isinstance(outcome, Context | Telling):
        head = [f"question: {shortened(outcome.question)}"]
    asked = [f"{number}. {step_line(step)}" for number, step in enumerate(steps, start=1)]
    return "\n".join([*head, *asked, *_outcome_lines(outcome)])


def explain_html(steps: Sequence[StepLike], outcome: object) -> Html:
    """Show the same in a notebook: the steps as a table, then the outcome as it shows itself."""
    rows = [(n, step.port, *_counted(step), _back(step)) for n, step in enumerate(steps, start=1)]
    asked = table(("", "port", "asked", "ms", "tokens", "came back"), rows)
    shown = getattr(outcome, "_repr_html_", None)
    end = Html(shown()) if callable(shown) else lines_html(_outcome_lines(outcome))
    return card(f"{len(steps)} steps", asked, end)


def summed(steps: Sequence[StepLike], outcome: object) -> str:
    """Tell in one line how it ended, in how many steps and how long they took."""
    ended = " ".join(_outcome_lines(outcome)) if isinstance(outcome, Exception) else str(outcome)
    took = sum(1000 * step.seconds for step in steps)
    return f"{shortened(ended, most=200)} ({len(steps)} steps, {took:.1f} ms)"


def step_line(step: StepLike) -> str:
    """Tell one step: who was asked how much, how long it took, and what came back."""
    tokens = "" if step.tokens is None else f", {step.tokens} tokens"
    asked = f"{len(step.items)} asked, {1000 * step.seconds:.1f} ms{tokens}"
    return f"{step.port}: {asked} -> {_back(step)}"


def _counted(step: StepLike) -> tuple[str, ...]:
    tokens = "" if step.tokens is None else str(step.tokens)
    return str(len(step.items)), f"{1000 * step.seconds:.1f}", tokens


def _back(step: StepLike) -> str:
    return f"failed, {shortened(step.error)}" if step.error else _brief(step.answers)


def _brief(answers: Sequence[Any]) -> str:
    """Say in a few words what came back."""
    if not answers:
        return "nothing"
    if all(isinstance(answer, BiLabelScore) for answer in answers):
        answers = [answer.combine() for answer in answers]
    if all(isinstance(answer, float | int) for answer in answers):
        return f"from {min(answers):.2f} to {max(answers):.2f}"
    if all(isinstance(answer, list | tuple) for answer in answers):
        return f"{sum(map(len, answers))} found"
    cut = sum(bool(cut_note(answer, "answer")) for answer in answers)
    told = shortened(answers[0]) if len(answers) == 1 else f"{len(answers)} answers"
    return f"{told} ({cut} cut off)" if cut else told


def _outcome_lines(outcome: object) -> Iterator[str]:
    if isinstance(outcome, Exception):
        yield f"failed: {type(outcome).__name__}: {outcome}"
        return
    if isinstance(outcome, Context):
        yield from [*decided(outcome), *noted(outcome)]
    elif isinstance(outcome, Telling):
        yield from outcome.trace_lines()
    else:
        yield f"value: {shortened(outcome)}"
