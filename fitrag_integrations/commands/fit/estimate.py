"""Say before the first call how many there will be at most, and what they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.fitting import Wish
from fitrag_integrations.training.fitted.questions import WRITTEN_MORE
from fitrag_integrations.training.fitted.trying import recipes
from fitrag_integrations.types import Passage

AROUND = 40  # tokens of a prompt around its passages
SECONDS = 1.5  # a call to a language model; nobody knows before the first
EMBEDDED_SECONDS = 0.1
WRITTEN = 12  # tokens of an answer in a few words
SEEN = 500  # passages whose length is looked at


@dataclass(frozen=True, slots=True)
class Estimate:
    """Maximum calls, tokens read and written, seconds, and the price (None without prices)."""

    calls: int
    read: int
    written: int
    seconds: float
    money: float | None

    def __str__(self) -> str:
        money = "" if self.money is None else f", {self.money:.2f} in money"
        return (
            f"at most {self.calls:,} calls, {self.read:,} tokens read and {self.written:,} "
            f"written{money}, about {max(1, round(self.seconds / 60))} min"
        )


def estimate(
    passages: Sequence[Passage],
    wish: Wish,
    *,
    made: bool,
    embedded: bool,
    at_once: int,
    tells: bool = False,
    prices: Prices | None,
) -> Estimate:
    """Count the calls of a fit; `made` says that questions have to be written first.

    A time is guessed for each call, `at_once` of which are open. A model that `tells` of its
    tokens is asked for a draft, and whether that is true.
    """
    some = passages[:SEEN]
    one = sum(approximate_tokens(each.text) for each in some) / max(1, len(some))
    shown = sum(_tokens(each, one) for each in recipes(wish.k, 0.5).values())
    count, ways = wish.count, len(recipes(wish.k, 0.5))
    labels = count / 2 * min(wish.depth, wish.k)
    writing = 0 if embedded or not made else 2 * WRITTEN_MORE * count
    calls = round(count * (ways + 1 + (not embedded) + 2 * tells) + labels + writing)
    read = round(count * shown + (labels + writing) * one + calls * AROUND)
    written = calls * WRITTEN
    price = None if prices is None else prices.per_thousand(tokens_in=read, tokens_out=written)
    each = EMBEDDED_SECONDS if embedded else SECONDS / at_once
    seconds = calls * each
    return Estimate(calls, read, written, seconds, None if price is None else price / 1000)


def _tokens(recipe: dict[str, object], one: float) -> float:
    """Guess the tokens of the passages that a setting shows, of `one` token count each."""
    if isinstance(most := recipe.get("max_tokens"), int):
        return float(most)
    if recipe["method"] == "direct":
        return one * float(str(recipe["k"]))
    share = recipe.get("max_share") or DEFAULTS.sentences.max_share or 1.0
    return one * float(str(recipe["top_n"])) * float(str(share))
