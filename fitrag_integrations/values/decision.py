"""What a method decided, and what a language model wrote on the way, token by token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fitrag_integrations.core.checks import (
    Checked,
    Number,
    Share,
    Text,
    check_many,
    check_number,
    check_text,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError


@dataclass(frozen=True, slots=True)
class RetrievalDecision(Record, Checked):
    """Decision whether to retrieve, and the reason.

    Args:
        retrieve: The decision.
        p_known: Probability that the model knows the answer by itself, in [0, 1]; None where a gate
            returns a verdict without a number.
        threshold: What ``p_known`` was compared with.
        why: One plain sentence.
    """

    retrieve: bool
    p_known: Share | None = None
    threshold: Number | None = None
    why: Text = ""

    def __str__(self) -> str:
        """Return the verdict, its numbers and its reason in one line."""
        said = "retrieve" if self.retrieve else "do not retrieve"
        known = "" if self.p_known is None else f", p_known {self.p_known:.2f}"
        threshold = "" if self.threshold is None else f", threshold {self.threshold:.2f}"
        return f"{said}{known}{threshold}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class Draft(Record):
    """A model's first words on a question, and how sure it was of each token.

    Args:
        text: The words.
        logprobs: Natural logarithm of the probability of each token written, at most 0.
        margins: Probability of the likeliest token less that of the second, in [0, 1], per token.
        entropies: Entropy in nats per token, over the whole vocabulary or over the alternatives
            that a service shows. All three are empty where the model does not report them.
    """

    text: str
    logprobs: tuple[float, ...] = ()
    margins: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_text("Draft.text", self.text)
        bounds = {"logprobs": (-math.inf, 0.0), "margins": (0.0, 1.0), "entropies": (0.0, math.inf)}
        for name, (low, high) in bounds.items():
            numbers = tuple(
                check_number(f"Draft.{name}[{i}]", value, low=low, high=high)
                for i, value in enumerate(getattr(self, name))
            )
            object.__setattr__(self, name, numbers)


class Action(StrEnum):
    """CRAG's action for a retrieved list (CRAG, section 4.3).

    Attributes:
        CORRECT: Some passage answers the question: refine what was retrieved.
        AMBIGUOUS: Undecided: refine what was retrieved, and search the web.
        INCORRECT: No passage answers the question: search the web instead.
    """

    CORRECT = "correct"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"


@dataclass(frozen=True, slots=True)
class Continuation(Record):
    """Text that a model wrote, with its tokens and their log-probabilities.

    Args:
        text: The text.
        tokens: Its tokens in order; joined, they are the text.
        logprobs: Natural logarithm of the probability of each token, at most 0. Both are empty
            where the model does not report them.
    """

    text: str
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_text("Continuation.text", self.text)
        tokens = check_many("Continuation.tokens", self.tokens, str)
        numbers = tuple(
            check_number(f"Continuation.logprobs[{i}]", value, high=0.0)
            for i, value in enumerate(self.logprobs)
        )
        if len(tokens) != len(numbers):
            allowed = f"one per token, {len(tokens)}"
            raise InputError.of("Continuation.logprobs", given=len(numbers), allowed=allowed)
        if tokens and "".join(tokens) != self.text:
            raise InputError.of("Continuation.tokens", given=tokens, allowed="the text in pieces")
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "logprobs", numbers)

    def probabilities(self, start: int, end: int) -> list[tuple[str, float]]:
        """Return the tokens that overlap `text[start:end]`, cut to it, with their probabilities.

        Args:
            start: First character.
            end: Character after the last.
        """
        found, at = [], 0
        for token, logprob in zip(self.tokens, self.logprobs, strict=True):
            low, high = max(start, at), min(end, at + len(token))
            if low < high:
                found.append((self.text[low:high], math.exp(logprob)))
            at += len(token)
        return found
