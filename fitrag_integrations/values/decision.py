"""Decisions of a method, and the drafts of a language model with their token statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, TypeAlias

from fitrag_integrations.core.checks import Checked, Number, Share, Strings, Text, check_numbers
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import refuse_if

Numbers: TypeAlias = tuple[float, ...]
Logprobs: TypeAlias = Annotated[Numbers, partial(check_numbers, high=0.0)]


@dataclass(frozen=True, slots=True)
class RetrievalDecision(Record, Checked):
    """Decision whether to retrieve, and the reason.

    Args:
        retrieve: The decision.
        p_known: Probability that the model knows the answer by itself, in [0, 1]; None if the gate
            returns only a verdict.
        threshold: Threshold that ``p_known`` was compared with.
        why: The reason, in one sentence.
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
class Draft(Record, Checked):
    """Beginning of a model's answer, with its confidence in each token.

    Args:
        text: The text.
        logprobs: Natural logarithm of the probability of each token written, at most 0.
        margins: Difference between the probabilities of the most likely token and the second, in
            [0, 1], per token.
        entropies: Entropy in nats per token, over the whole vocabulary or over the alternatives
            that a service shows. All three are empty if the model does not report them.
    """

    text: Text
    logprobs: Logprobs = ()
    margins: Annotated[Numbers, partial(check_numbers, low=0.0, high=1.0)] = ()
    entropies: Annotated[Numbers, partial(check_numbers, low=0.0)] = ()


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
class Continuation(Record, Checked):
    """Text that a model wrote, with its tokens and their log-probabilities.

    Args:
        text: The text.
        tokens: Its tokens in order; joined, they are the text.
        logprobs: Natural logarithm of the probability of each token, at most 0. Both are empty if
            the model does not report them.
    """

    text: Text
    tokens: Strings = ()
    logprobs: Logprobs = ()

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        tokens, count = self.tokens, len(self.logprobs)
        allowed = f"one per token, {len(tokens)}"
        refuse_if(len(tokens) != count, "Continuation.logprobs", count, allowed)
        wrong = tokens and "".join(tokens) != self.text
        refuse_if(wrong, "Continuation.tokens", tokens, "the text in pieces")

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
