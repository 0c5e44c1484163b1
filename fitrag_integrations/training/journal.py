"""Keep every answer of a language model as it arrives, and account for its cost.

One file beside the output, appended to: the plan, then an answer a line. A killed run loses the
questions in flight and no answer, so nothing answered is asked again. A written line outlives a
kill of the process; `sync`, after each lot of rows, makes it outlive a power cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.training.collecting import Failed, Told


class AnswerJournal:
    """Answers of all runs by prompt, in one file; `tokens` counts what was paid: (read, written).

    Args:
        path: File of the journal.
        plan: What an answer depends on beside its prompt.
        replan: Whether a file that holds nothing but a plan takes the new one.

    Raises:
        InputError: Naming the first option that differs from the plan the file was begun with, or
            where another process is writing to it.
    """

    def __init__(self, path: Path, plan: Mapping[str, object], *, replan: bool = False) -> None:
        self._path, self._known = path, dict[str, Told]()
        self.tokens = (0, 0)
        self._log = jsonl.Log(path)
        try:
            self._read(plan, replan)
        except BaseException:
            self._log.close()
            raise

    def get(self, prompt: str) -> Told | None:
        """Return the answer to a prompt, if there ever was one."""
        return self._known.get(_digest(prompt))

    def keep(self, prompt: str, outcome: Told | Failed) -> None:
        """Write down what was heard: an answer, or what was paid for none."""
        answer: dict[str, object] = {}
        if isinstance(outcome, Told):
            self._known[key := _digest(prompt)] = outcome
            answer = {"prompt": key, "answer": outcome.text}
        if answer or outcome.tokens != (0, 0):
            self.tokens = _sum(self.tokens, outcome.tokens)
            self._log.append({**answer, "tokens": outcome.tokens})

    def sync(self) -> None:
        """Flush what was written to disk."""
        self._log.sync()

    def close(self) -> None:
        """Close the file, which lets other processes have it."""
        self._log.close()

    def _read(self, plan: Mapping[str, object], replan: bool) -> None:
        number = 0
        try:
            if replan and len(list(self._log)) < 2:
                self._log.clear()
            for number, entry in enumerate(self._log, start=1):
                if number > 1:
                    read, written = entry["tokens"]
                    self.tokens = _sum(self.tokens, (read, written))
                    if "prompt" in entry:
                        self._known[entry["prompt"]] = Told(str(entry["answer"]), (read, written))
                    continue
                for name, given in plan.items():
                    refuse_if(
                        (begun := entry["plan"].get(name)) != given,
                        f"--{name}",
                        given,
                        f"{begun!r}, with which {self._path.with_suffix('')} was begun: "
                        "choose another output or give --overwrite",
                    )
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            allowed = "the answers of an earlier run; this file is damaged: delete it"
            raise InputError.of("output", given=str(self._path), allowed=allowed) from None
        if not number:
            self._log.append({"plan": plan})


def _digest(prompt: str) -> str:
    data = prompt.encode("utf-8", errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


MILLION = 1_000_000


@dataclass
class Account:
    """Count of tokens and failures, which refuses prompts before either exceeds its limit.

    Args:
        count_tokens: Counter of tokens.
        price_read: Price of a million input tokens.
        price_written: Price of a million output tokens.
        max_cost: Maximum cost of all runs together; a prompt under way counts with the longest
            answer until its price is known.
        max_failures: Maximum number of failures in a row, 0 for any.
        longest: Tokens of the longest answer.
        tokens: Tokens that earlier runs paid: (read, written).
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
        """Count an outcome; return it with its tokens, counted if the model reported none."""
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
        self.tokens = _sum(self.tokens, outcome.tokens)
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
