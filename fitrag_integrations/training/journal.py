"""Answers of a language model or a reader: asked once, kept on disk, within a price limit.

One file beside the output, appended to: the plan, then an answer a line under its prompt's hash. A
killed run loses the questions in flight and no answer, so nothing answered is asked again. A
written line outlives a kill of the process; after each call it outlives a power cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.collecting import Failed, Outcome, Told

May: TypeAlias = Callable[[str], bool]
Heard: TypeAlias = Callable[[str, Outcome], None]
Send: TypeAlias = Callable[[Mapping[str, Any], May, Heard], None]
"""Answers prompts, each with what it is about: checks `may` before one is sent, reports `heard`."""


class AnswerCache:
    """Answers of all runs by prompt, in one file, with what they cost.

    Calling it sends the prompts that have no stored answer. `stopped` is then the reason why no
    further prompt may be sent; it is empty if there is none.

    Args:
        path: File of the answers.
        plan: What an answer depends on beside its prompt.
        replan: Whether the new plan replaces the old one if the file has no answers yet.
        price_read: Price of a million input tokens.
        price_written: Price of a million output tokens.
        max_cost: Maximum cost of all runs together; a pending prompt counts with the longest answer
            until its price is known.
        max_failures: Maximum number of failures in a row, 0 for any.
        longest: Tokens of the longest answer.
        is_ending: Whether the run was asked to end, so that no further prompt is sent.

    Raises:
        InputError: Naming the first option that differs from the plan the file was begun with, or
            where another process is writing to it.
    """

    def __init__(
        self,
        path: Path,
        plan: Mapping[str, object],
        *,
        replan: bool = False,
        price_read: float = 0.0,
        price_written: float = 0.0,
        max_cost: float | None = None,
        max_failures: int = 0,
        longest: int = 64,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._prices, self._max_cost, self._longest = (price_read, price_written), max_cost, longest
        self._max_failures, self._is_ending = max_failures, is_ending
        self._known, self._under_way = dict[str, Told](), dict[str, float]()
        self.tokens = (0, 0)  # read and written, of all runs
        self.asked, self.failed, self._in_a_row = 0, 0, 0
        self.last: Failed | None = None
        self.stopped = ""
        self._log = jsonl.Log(path)
        try:
            self._read(path, plan, replan)
        except BaseException:
            self._log.close()
            raise

    def __call__(self, asked: Mapping[str, Any], send: Send) -> dict[str, Outcome]:
        """Answer prompts; each is sent once, and not at all if its answer is stored.

        Args:
            asked: What each prompt is about, by prompt.
            send: Function that answers the new ones.

        Returns:
            Answer or failure by prompt, without the prompts that were not sent.
        """
        outcomes: dict[str, Outcome] = {p: own for p in asked if (own := self.get(p)) is not None}

        def heard(prompt: str, outcome: Outcome) -> None:
            outcomes[prompt] = self._keep(prompt, outcome)

        if new := {prompt: asked[prompt] for prompt in asked if prompt not in outcomes}:
            send(new, self._may, heard)
            self._log.sync()
        return outcomes

    def get(self, prompt: str) -> Told | None:
        """Return the stored answer to a prompt; None if there is none."""
        return self._known.get(_digest(prompt))

    def close(self) -> None:
        """Close the file and release its lock."""
        self._log.close()

    @property
    def cost(self) -> float:
        """Return what all runs have cost so far."""
        return self._price(*self.tokens)

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self._known)

    def __str__(self) -> str:
        read, written = self.tokens
        summary = f"{self.asked} asked, {self.failed} failed, {read} tokens read, {written} written"
        return summary + (f", cost {self.cost:.4f}" if any(self._prices) else "")

    def _may(self, prompt: str) -> bool:
        """Check whether a prompt may be sent, and count it as under way if so."""
        price = self._price(approximate_tokens(prompt), self._longest)
        spent = self.cost + sum(self._under_way.values())
        if self._max_failures and self._in_a_row >= self._max_failures:
            self.stopped = f"{self._in_a_row} failures in a row, the last: {self.last}"
        elif self._max_cost is not None and spent + price > self._max_cost:
            self.stopped = f"another prompt could exceed the cost of {self._max_cost:g}"
        if self.stopped or self._is_ending():
            return False
        self._under_way[prompt] = price
        return True

    def _keep(self, prompt: str, outcome: Outcome) -> Outcome:
        """Write down and count what was heard; tokens are estimated if the model reported none."""
        self._under_way.pop(prompt, None)
        self.asked += 1
        entry: dict[str, object] = {}
        if isinstance(outcome, Told):
            if outcome.score is None and outcome.tokens == (0, 0):  # a reader costs nothing
                outcome = replace(
                    outcome, tokens=(approximate_tokens(prompt), approximate_tokens(outcome.text))
                )
            self._known[key := _digest(prompt)], self._in_a_row = outcome, 0
            entry = {"prompt": key, "answer": outcome.text}
            entry |= {} if outcome.score is None else {"score": outcome.score}
        else:
            self.failed, self.last = self.failed + 1, outcome
            self._in_a_row += 1
        if entry or any(outcome.tokens):
            self.tokens = added(self.tokens, outcome.tokens)
            self._log.append({**entry, "tokens": outcome.tokens})
        return outcome

    def _price(self, read: int, written: int) -> float:
        return (read * self._prices[0] + written * self._prices[1]) / 1_000_000

    def _read(self, path: Path, plan: Mapping[str, object], replan: bool) -> None:
        """Read the answers of earlier runs, which had the same plan."""
        begun = plan
        try:
            first, *entries = list(self._log) or [None]
            if first is None or (replan and not entries):
                self._log.clear()
                self._log.append({"plan": plan})
            else:
                begun = dict(first["plan"])
            for entry in entries:
                read, written = entry["tokens"]
                self.tokens = added(self.tokens, (read, written))
                if "prompt" in entry:
                    self._known[entry["prompt"]] = Told(
                        str(entry["answer"]), (read, written), entry.get("score")
                    )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError.of(
                "output",
                given=str(path),
                allowed="the answers of an earlier run; this file is damaged: delete it",
            ) from None
        for name, given in plan.items():
            refuse_if(
                (was := begun.get(name)) != given,
                f"--{name}",
                given,
                f"{was!r}, with which {path.with_suffix('')} was begun: "
                "choose another output or give --overwrite",
            )


def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Add up tokens read and written.

    Args:
        one: Tokens read, and tokens written.
        other: The same of another call.
    """
    return one[0] + other[0], one[1] + other[1]


def _digest(prompt: str) -> str:
    data = prompt.encode("utf-8", errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
