"""Compute the cost of answers: in money, and of a slim proxy relative to its large model.

`Prices` turn tokens and queries into an amount. The rest is SlimPLM's (section 4.6, Table 4), in
tokens of the large model: a token that a small model writes counts as `ratio` of one. The paper
counts a token of a 7B model as a tenth of a 70B model's token, and counts only generated tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeAlias

from fitrag_integrations.core.checks import Checked, check_number, trait
from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Step
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Context, Passage

RATIO = 0.1
SLIM = ("proxy", "rewrite", "judge")
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

    def of_counts(self, counts: Mapping[str, float]) -> float:
        """Return the cost of 1,000 questions from named counts; missing ones are 0."""
        return self.per_thousand(
            **{name: counts.get(name, 0.0) for name in ("tokens_in", "tokens_out")},
            retriever_calls=counts.get("retriever_calls", 0.0),
        )


@dataclass(frozen=True, slots=True)
class CostAccount(Record):
    """Row of Table 4: average tokens per question, in tokens of the large model.

    Args:
        chat: Tokens the large model itself writes.
        proxy: Tokens of the heuristic answer.
        rewrite: Tokens of the rewriting.
        judge: Tokens of the judge.
        rows: Number of questions, including known ones, which have nothing to rewrite.
        ratio: Cost of a small model's token.
    """

    chat: float
    proxy: float
    rewrite: float
    judge: float
    rows: int
    ratio: float = RATIO

    @property
    def total(self) -> float:
        """Tokens that SlimPLM adds."""
        return self.proxy + self.rewrite + self.judge

    @property
    def share(self) -> float | None:
        """`total` as a fraction of `chat`; None if the large model writes nothing."""
        return self.total / self.chat if self.chat else None

    def to_dict(self) -> dict[str, object]:
        """Return every field, and `total` and `share`."""
        return {**Record.to_dict(self), "total": self.total, "share": self.share}


def cost_account(
    contexts: Iterable[Context | Row],
    chat: Sequence[float],
    *,
    ratio: float = RATIO,
) -> CostAccount:
    """Compute the mean number of tokens that each of SlimPLM's models wrote.

    Args:
        contexts: Contexts of `SlimPLM`, or their `details["tokens"]`.
        chat: Tokens the large model wrote on each question.
        ratio: Cost of a small model's token, in [0, 1].

    Raises:
        InputError: If the two differ in length or are empty.
    """
    rate = check_number("ratio", ratio, low=0.0, high=1.0)
    written: dict[str, list[float]] = {name: [] for name in SLIM}
    for each in contexts:
        tokens = each.details.get("tokens", {}) if isinstance(each, Context) else each
        if not isinstance(tokens, Mapping):
            raise InputError.of("tokens", given=tokens, allowed="a mapping of counts")
        for name, counts in written.items():  # a model that was not called wrote nothing
            counts.append(check_number(name, tokens.get(name, 0), low=0.0))
    rows = len(written[SLIM[0]])
    refuse_if(
        not rows or rows != len(chat),
        "chat",
        len(chat),
        f"{rows} numbers, one per context and at least one",
    )
    spent = math.fsum(check_number("chat", count, low=0.0) for count in chat) / rows
    slim = {name: rate * (math.fsum(counts) / rows) for name, counts in written.items()}
    return CostAccount(chat=spent, **slim, rows=rows, ratio=rate)


RETRIEVING = frozenset(("retrieve", "search"))
WRITING = frozenset(
    ("generate", "draft", "rewrite", "judge", "continue", "ensemble", "reflect", "p_yes", "rescore")
)
"""Ports of language models; gates, scorers and evaluators are not among them."""
READING = "read"


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
        elif step.port == READING and step.items:
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
