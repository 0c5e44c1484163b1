"""Account for what answers cost: in money, and for a slim proxy beside the model it serves.

`Prices` turn tokens and queries into an amount. The rest is SlimPLM's (section 4.6, Table 4), in
tokens of the large model: a token that a small model writes counts as `ratio` of one. The paper
takes a 7B model's token for a tenth of a 70B model's, and counts tokens written only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Context

__all__ = ["RATIO", "CostAccount", "Prices", "cost_account"]

RATIO = 0.1
SLIM = ("proxy", "rewrite", "judge")


@dataclass(frozen=True, slots=True)
class Prices(Record):
    """Prices, in any currency.

    `tokens_in` and `tokens_out` are for a million tokens that a language model is given and
    writes, `retrieval` for a thousand queries to a retriever or a search. None is negative.
    """

    tokens_in: float = 0.0
    tokens_out: float = 0.0
    retrieval: float = 0.0

    def __post_init__(self) -> None:
        for name, given in Record.to_dict(self).items():
            value = check_number(f"Prices.{name}", given, low=0.0)
            object.__setattr__(self, name, value)

    def per_thousand(
        self, *, tokens_in: float, tokens_out: float, retriever_calls: float = 0.0
    ) -> float:
        """Return the cost of 1,000 questions from the averages per question."""
        tokens = tokens_in * self.tokens_in + tokens_out * self.tokens_out
        return tokens / 1000 + retriever_calls * self.retrieval

    def of_counts(self, counts: Mapping[str, float]) -> float:
        """Return the cost of 1,000 questions from named counts; missing ones are 0."""
        named = {name: counts.get(name, 0.0) for name in ("tokens_in", "tokens_out")}
        return self.per_thousand(**named, retriever_calls=counts.get("retriever_calls", 0.0))


@dataclass(frozen=True, slots=True)
class CostAccount(Record):
    """Row of Table 4: average tokens per question, in tokens of the large model.

    `chat` is what the large model itself writes, the others are what SlimPLM adds. `rows` is the
    number of questions, known ones among them, which have nothing to rewrite.
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

    def to_dict(self) -> dict[str, Any]:
        """Return every field, and `total` and `share`."""
        return {**Record.to_dict(self), "total": self.total, "share": self.share}


def cost_account(
    contexts: Iterable[Context | Row],
    chat: Sequence[float],
    *,
    ratio: float = RATIO,
) -> CostAccount:
    """Average the tokens each of SlimPLM's models wrote.

    `contexts` are those of `SlimPLM`, or their `details["tokens"]`; `chat` is how many tokens the
    large model wrote on each question. `ratio` is the cost of a small model's token, in [0, 1].
    Raises `InputError` where the two are not of one length, or there is none.
    """
    rate = check_number("ratio", ratio, low=0.0, high=1.0)
    counted = [_tokens(each) for each in contexts]
    if not counted or len(counted) != len(chat):
        allowed = f"{len(counted)} numbers, one per context and at least one"
        raise InputError.of("chat", given=len(chat), allowed=allowed)
    written = {name: _mean([tokens[name] for tokens in counted]) for name in SLIM}
    spent = _mean([check_number("chat", count, low=0.0) for count in chat])
    slim = {name: rate * mean for name, mean in written.items()}
    return CostAccount(chat=spent, **slim, rows=len(counted), ratio=rate)


def _tokens(given: Context | Row) -> dict[str, float]:
    """Return a context's token counts; a model that was not called wrote nothing."""
    tokens = given.details.get("tokens", {}) if isinstance(given, Context) else given
    if not isinstance(tokens, Mapping):
        raise InputError.of("tokens", given=tokens, allowed="a mapping of counts")
    return {name: check_number(name, tokens.get(name, 0), low=0.0) for name in SLIM}


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
