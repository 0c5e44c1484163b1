"""What a driver saw while it ran a flow: the steps, the outcome, and both told to a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fitrag_integrations.core.html import card
from fitrag_integrations.core.record import plain
from fitrag_integrations.flow.explain import explain, explain_html, step_line, summed

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Step:
    """Record one ask of one question and what came back.

    ``seconds`` is this question's part, by number of items, of a call it shared with others.
    ``tokens`` is what the port counted for these items and answers, None where it does not count.
    ``error`` is set, and ``answers`` empty, where the port failed.
    """

    port: str
    items: Sequence[Any]
    answers: Sequence[Any]
    seconds: float
    tokens: int | None = None
    error: str | None = None

    def __str__(self) -> str:
        """Tell in one line who was asked how much, and what came back."""
        return step_line(self)

    def _repr_html_(self) -> str:
        """Show that line in a notebook; all of it is escaped."""
        return card(step_line(self))

    @property
    def count(self) -> int:
        """Count the items asked."""
        return len(self.items)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Give the step as plain Python; ``full`` adds the items and the answers themselves."""
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
class Traced(Generic[R]):
    """Hold the outcome of one flow, a value or the exception it ended with, and its steps."""

    outcome: R | Exception
    steps: tuple[Step, ...] = ()

    @property
    def value(self) -> R:
        """Give the flow's value, or raise the exception it ended with."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    @property
    def error(self) -> Exception | None:
        """Give the exception the flow ended with, None where it has a value."""
        return self.outcome if isinstance(self.outcome, Exception) else None

    @property
    def seconds(self) -> float:
        """Sum the seconds of the steps."""
        return sum(step.seconds for step in self.steps)

    def explain(self) -> str:
        """Tell in a few lines what was asked, what came back and what was kept."""
        return explain(self.steps, self.outcome)

    def __str__(self) -> str:
        """Tell in one line how it ended, in how many steps and how long they took."""
        return summed(self.steps, self.outcome)

    def _repr_html_(self) -> str:
        """Show the steps and the outcome in a notebook; every text is escaped."""
        return explain_html(self.steps, self.outcome)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Give ``steps`` and either ``value`` or ``error`` as plain Python.

        ``full`` adds to each step its items and answers, texts included.
        """
        steps = [step.to_dict(full=full) for step in self.steps]
        name = "value" if self.error is None else "error"
        return {"steps": steps, name: plain(self.outcome)}
