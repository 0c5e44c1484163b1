"""What ``MethodRunnable`` answers: a text to the next step of a chain, with all that led to it."""

from __future__ import annotations

from typing import Any

from fitrag_integrations.flow import Traced
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.types import Context, Excerpt


class Answer(str):
    """Be the answer's text, and carry its context, prompt and source; ``traced`` is the trace."""

    traced: Traced[Answered]

    def __new__(cls, traced: Traced[Answered]) -> Answer:
        answer = super().__new__(cls, traced.value.text)
        answer.traced = traced
        return answer

    def __reduce__(self) -> tuple[type[Answer], tuple[Traced[Answered]]]:
        return type(self), (self.traced,)

    @property
    def text(self) -> str:
        """The bare text."""
        return self.traced.value.text

    @property
    def context(self) -> Context:
        """Return what the method found."""
        return self.traced.value.context

    @property
    def prompt(self) -> str:
        """The prompt the answer continues."""
        return self.traced.value.prompt

    @property
    def source(self) -> Excerpt | None:
        """The place of an extracted answer, None for a generated one."""
        return self.traced.value.source

    @property
    def score(self) -> float | None:
        """The reader's score, None for a generated answer."""
        return self.traced.value.score

    def explain(self) -> str:
        """Return a few lines: what was requested, what was returned and what was answered."""
        return self.traced.explain()

    def _repr_html_(self) -> str:
        """Show the answer over what it came from; every text is escaped."""
        return self.traced._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return answer, context, prompt, source and score as plain Python."""
        return self.traced.value.to_dict()
