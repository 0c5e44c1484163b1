"""Count what a question costs, in calls and tokens, and compute its price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeAlias

from fitrag_integrations.core.checks import Checked, check_number, trait
from fitrag_integrations.core.record import Record
from fitrag_integrations.flow import Step
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Passage

Price: TypeAlias = Annotated[float, partial(check_number, low=0.0)]


@dataclass(frozen=True, slots=True)
class Prices(Record, Checked):
    """Prices, in any currency; none is negative.

    Args:
        tokens_in: Price of a million input tokens.
        tokens_out: Price of a million output tokens.
        retrieval: Price of a thousand queries to a retriever or a search.

    Example:
        >>> Prices(tokens_in=2.0, tokens_out=10.0).per_thousand(tokens_in=500, tokens_out=20)
        1.2
    """

    tokens_in: Price = 0.0
    tokens_out: Price = 0.0
    retrieval: Price = 0.0

    def per_thousand(
        self, *, tokens_in: float, tokens_out: float, retriever_calls: float = 0.0
    ) -> float:
        """Return the cost of 1,000 questions from the averages per question.

        Args:
            tokens_in: Input tokens.
            tokens_out: Output tokens.
            retriever_calls: Queries to a retriever or a search.
        """
        tokens = tokens_in * self.tokens_in + tokens_out * self.tokens_out
        return tokens / 1000 + retriever_calls * self.retrieval


RETRIEVING = frozenset(("retrieve", "search"))
WRITING = frozenset(
    ("generate", "draft", "rewrite", "judge", "continue", "ensemble", "reflect", "p_yes", "rescore")
)
"""Ports of language models; gates, scorers and evaluators are not among them."""


@dataclass(frozen=True, slots=True)
class Spent(Record):
    """Cost of one question.

    An extractive reader counts as a language model: one call for all passages, with its best answer
    as the output.

    Args:
        retriever_calls: Queries to a retriever or a web search.
        llm_calls: Prompts to a language model.
        tokens_in: Tokens of the prompts.
        tokens_out: Tokens of the generations.
    """

    retriever_calls: int = 0
    llm_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


def spent(steps: Iterable[Step], count_tokens: TokenCounter = approximate_tokens) -> Spent:
    """Sum the costs of a question's steps.

    Args:
        steps: Steps of the question's trace.
        count_tokens: Counter of the tokens of each port's input and output.
    """
    retrievals, calls, given, written = 0, 0, 0, 0
    for step in steps:
        if step.port in RETRIEVING:
            retrievals += step.count
        elif step.port in WRITING:
            calls += step.count
            given += _tokens(step.items, count_tokens)
            written += _tokens(step.answers, count_tokens)
        elif step.port == "read" and step.items:
            calls += 1
            question = step.items[0][0]
            given += _tokens([question, *(passage for _, passage in step.items)], count_tokens)
            best = max(step.answers, key=lambda answer: answer.score, default="")
            written += _tokens(best, count_tokens)
    return Spent(retrievals, calls, given, written)


def _tokens(value: object, count_tokens: TokenCounter) -> int:
    """Count the tokens of the texts in a port's input or output."""
    if isinstance(value, str):
        return count_tokens(value)
    if isinstance(value, Passage):
        return count_tokens(f"{value.title} {value.text}")
    if isinstance(value, Sequence):
        return sum(_tokens(each, count_tokens) for each in value)
    text = trait(value, "text", str)
    return 0 if text is None else count_tokens(text)
