"""Trace of a flow: its steps and its outcome as the driver recorded them.

A value that has ``trace_lines`` describes itself in ``Traced.explain``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, runtime_checkable

from fitrag_integrations.core.generic import R
from fitrag_integrations.core.record import plain
from fitrag_integrations.core.show import Html, Visible, card, lines_html, shortened, table
from fitrag_integrations.types import BiLabelScore
from fitrag_integrations.values.prompt import cut_note


@dataclass(frozen=True, slots=True)
class Step(Visible):
    """One request of one question and its answers.

    Args:
        port: Name of the port.
        items: Items of the request.
        answers: The answers, one per item; empty if the port failed.
        seconds: Seconds of the call; of a call shared with other questions, this question's part by
            number of items.
        tokens: Tokens of the items and answers; None if the port does not count them.
        error: Error that the port raised, or None.
    """

    port: str
    items: Sequence[Any]
    answers: Sequence[Any]
    seconds: float
    tokens: int | None = None
    error: str | None = None

    def __str__(self) -> str:
        """Return one line: the port, the number of items, and the answers."""
        tokens = "" if self.tokens is None else f", {self.tokens} tokens"
        asked = f"{self.count} asked, {1000 * self.seconds:.1f} ms{tokens}"
        return f"{self.port}: {asked} -> {_back(self)}"

    def _repr_html_(self) -> str:
        """Show that line in a notebook; all of it is escaped."""
        return card(str(self))

    @property
    def count(self) -> int:
        """Number of items requested."""
        return len(self.items)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return the step as plain Python; ``full`` adds the items and the answers."""
        brief = {
            "port": self.port,
            "count": self.count,
            "seconds": self.seconds,
            "tokens": self.tokens,
            "error": self.error,
        }
        if not full:
            return brief
        return {**brief, "items": plain(self.items), "answers": plain(self.answers)}


@dataclass(frozen=True, slots=True)
class Traced(Visible, Generic[R]):
    """Result of one flow.

    Args:
        outcome: The value that the flow returned, or the exception that ended it.
        steps: Its requests, in order.
    """

    outcome: R | Exception
    steps: tuple[Step, ...] = ()

    @property
    def value(self) -> R:
        """The flow's value. Raises the exception the flow ended with."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    @property
    def error(self) -> Exception | None:
        """The exception the flow ended with, or None."""
        return self.outcome if isinstance(self.outcome, Exception) else None

    @property
    def seconds(self) -> float:
        """Total seconds of the steps."""
        return sum(step.seconds for step in self.steps)

    def explain(self, *, dropped: bool = False) -> str:
        """Return a few lines: what was kept, the answer if there is one, and the steps.

        Args:
            dropped: List everything that was dropped, with the reason.
        """
        asked = [f"{number}. {step}" for number, step in enumerate(self.steps, start=1)]
        head = []
        if isinstance(self.outcome, Explained):
            head = [f"question: {shortened(self.outcome.question)}"]
        return "\n".join([*head, *_outcome_lines(self.outcome, dropped=dropped), *asked])

    def __str__(self) -> str:
        """Return one line: how it ended, in how many steps and seconds."""
        ended = str(self.outcome)
        if isinstance(self.outcome, Exception):
            ended = " ".join(_outcome_lines(self.outcome))
        took = f"{len(self.steps)} steps, {1000 * self.seconds:.1f} ms"
        return f"{shortened(ended, most=200)} ({took})"

    def _repr_html_(self) -> str:
        """Show the steps and the outcome in a notebook; every text is escaped."""
        rows = [
            (
                number,
                step.port,
                step.count,
                f"{1000 * step.seconds:.1f}",
                "" if step.tokens is None else step.tokens,
                _back(step),
            )
            for number, step in enumerate(self.steps, start=1)
        ]
        asked = table(("", "port", "asked", "ms", "tokens", "came back"), rows)
        shown = getattr(self.outcome, "_repr_html_", None)
        end = Html(shown()) if callable(shown) else lines_html(_outcome_lines(self.outcome))
        return card(f"{len(self.steps)} steps", end, asked)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return ``steps`` and either ``value`` or ``error`` as plain Python.

        ``full`` adds to each step its items and answers, texts included.
        """
        steps = [step.to_dict(full=full) for step in self.steps]
        return {"steps": steps, "value" if self.error is None else "error": plain(self.outcome)}


@runtime_checkable
class Explained(Protocol):
    """Value that describes itself, line by line."""

    @property
    def question(self) -> str:
        """The question that it answers."""

    def trace_lines(self, *, dropped: bool = False) -> Iterable[str]:
        """Return the lines under the question; with `dropped` also what was left out."""


def _back(step: Step) -> str:
    return f"failed, {shortened(step.error)}" if step.error else _brief(step.answers)


def _brief(answers: Sequence[Any]) -> str:
    """Return a short description of the answers."""
    if not answers:
        return "nothing"
    refused = sum(isinstance(answer, Exception) for answer in answers)
    answers = [answer for answer in answers if not isinstance(answer, Exception)]
    if refused:
        return f"{_brief(answers)} ({refused} refused)"
    if all(isinstance(answer, BiLabelScore) for answer in answers):
        answers = [answer.relevance() for answer in answers]
    if all(isinstance(answer, float | int) for answer in answers):
        return f"from {min(answers):.2f} to {max(answers):.2f}"
    if all(isinstance(answer, list | tuple) for answer in answers):
        return f"{sum(map(len, answers))} found"
    cut = sum(bool(cut_note(answer, "answer")) for answer in answers)
    replies = shortened(answers[0]) if len(answers) == 1 else f"{len(answers)} answers"
    return f"{replies} ({cut} cut off)" if cut else replies


def _outcome_lines(outcome: object, *, dropped: bool = False) -> Iterator[str]:
    if isinstance(outcome, Exception):
        yield f"failed: {type(outcome).__name__}: {outcome}"
        return
    if isinstance(outcome, Explained):
        yield from outcome.trace_lines(**({"dropped": True} if dropped else {}))
    else:
        yield f"value: {shortened(outcome)}"
