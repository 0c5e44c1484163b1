"""Keep account of what asking costs, and say when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fitrag_integrations.training.collecting import Failed, Told

MILLION = 1_000_000


@dataclass
class Account:
    """Count tokens and failures; `may` says no before either is more than was allowed.

    Prices are per million tokens read and written. `tokens` starts with what earlier runs paid.
    `max_cost` holds for all runs together: what is under way is counted by `count_tokens` and
    `longest`, the tokens of the longest answer, until its price is known. `max_failures` is the
    number of failures in a row, 0 for any.
    """

    count_tokens: Callable[[str], int]
    price_read: float = 0.0
    price_written: float = 0.0
    max_cost: float | None = None
    max_failures: int = 0
    longest: int = 64
    tokens: tuple[int, int] = (0, 0)
    asked: int = 0
    failed: int = 0
    last: Failed | None = None
    stopped: str = ""
    _in_a_row: int = 0
    _under_way: dict[str, float] = field(default_factory=dict)

    def may(self, prompt: str) -> bool:
        """Check whether this prompt may be asked, and count it as under way if so."""
        if self.stopped:
            return False
        if self.max_failures and self._in_a_row >= self.max_failures:
            self.stopped = f"{self._in_a_row} failures in a row, the last: {self.last}"
            return False
        price = self.price((self.count_tokens(prompt), self.longest))
        spent = self.cost + sum(self._under_way.values())
        if self.max_cost is not None and spent + price > self.max_cost:
            self.stopped = f"another prompt could exceed the cost of {self.max_cost:g}"
            return False
        self._under_way[prompt] = price
        return True

    def heard(self, prompt: str, outcome: Told | Failed) -> Told | Failed:
        """Count an outcome; gives it with its tokens, counted where the model told none."""
        self._under_way.pop(prompt, None)
        self.asked += 1
        if isinstance(outcome, Failed):
            self.failed, self.last = self.failed + 1, outcome
            self._in_a_row += 1
        else:
            self._in_a_row = 0
            if outcome.tokens == (0, 0):
                tokens = (self.count_tokens(prompt), self.count_tokens(outcome.text))
                outcome = Told(outcome.text, tokens, outcome.score)
        read, written = outcome.tokens
        self.tokens = (self.tokens[0] + read, self.tokens[1] + written)
        return outcome

    def price(self, tokens: tuple[int, int]) -> float:
        """Return the price of tokens read and written."""
        return (tokens[0] * self.price_read + tokens[1] * self.price_written) / MILLION

    @property
    def cost(self) -> float:
        """Return what all runs have cost so far."""
        return self.price(self.tokens)

    def __str__(self) -> str:
        read, written = self.tokens
        summary = f"{self.asked} asked, {self.failed} failed, {read} tokens read, {written} written"
        return summary + (
            f", cost {self.cost:.4f}" if self.price_read or self.price_written else ""
        )
