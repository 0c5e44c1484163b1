"""What a language model wrote, token by token, with how likely each was."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fitrag_integrations.core.checks import check_many, check_number, check_text
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError


@dataclass(frozen=True, slots=True)
class Continuation(Record):
    """Hold a text, its tokens in order, which joined give the text, and their log-probabilities.

    `logprobs` are natural logarithms, at most 0, one per token. Both are empty where the model
    does not tell.
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
        """Give the tokens that overlap `text[start:end]`, cut to it, with their probabilities."""
        found, at = [], 0
        for token, logprob in zip(self.tokens, self.logprobs, strict=True):
            low, high = max(start, at), min(end, at + len(token))
            if low < high:
                found.append((self.text[low:high], math.exp(logprob)))
            at += len(token)
        return found
