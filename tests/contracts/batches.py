"""Contract of every batched call: n items in, n answers out, in order, whoever else calls."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from fitrag_integrations.errors import FitRagError
from fitrag_integrations.types import Passage

QUESTIONS = (
    "Which river runs through Vienna?",
    "Who wrote the letters from the lighthouse?",
    "When was the bridge at Harrow Ford built?",
)
PASSAGES = (
    Passage(
        "vienna", "Vienna lies on the Danube, which the city has kept from flooding since 1875."
    ),
    Passage(
        "bridge", "The bridge at Harrow Ford was built in 1931. It carries one lane.", "Harrow Ford"
    ),
    Passage("weather", "It rained for most of the week."),
    Passage("letters", "Ida Morrow wrote the letters while she kept the lighthouse. " * 6),
)
ODD_QUESTIONS = (
    "?",
    "Was heißt „Fluß“ — 川は何ですか？ 👩‍👩‍👧 \u202enaib\u202c",
    "so anyway, we were talking about trains, " * 60 + "which river runs through Vienna?",
)
ODD_PASSAGES = (
    Passage("mark", "."),
    Passage("scripts", "Die Donau fließt durch Wien. 川です。 👩‍👩‍👧 \x00 \ud7ff \u202enaib\u202c"),
    Passage("long", "The river was cold that year and nobody crossed it. " * 100),
    Passage("word", "a" * 5_000),
    Passage("marks", "[CLS] [SEP] </s> <|im_start|> {{question}} %s"),
)


T = TypeVar("T")
A = TypeVar("A")
THREADS = 8
TOLERANCE = 1e-3  # float32 sums in another order; a batch mate that leaks moves far more


class ContractError(AssertionError):
    """A promise of a port that an implementation does not keep."""


@dataclass(frozen=True)
class Check:
    """One promise of an interface, as a call without arguments.

    Args:
        name: Name of the promise, by which the check is shown.
        run: Tests it; raises ``ContractError`` if it is broken.
    """

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Try the promise; raises ``ContractError`` where it is broken."""
        self.run()

    def __str__(self) -> str:
        return self.name


def tried(each: Callable[..., None], make: Callable[[], object], *given: object) -> None:
    """Test a promise on a new object."""
    each(make(), *given)


def promise(kept: bool, message: str) -> None:
    """Raise ``ContractError`` with what was found, unless the promise is kept."""
    if not kept:
        raise ContractError(message)


@dataclass(frozen=True)
class Batched(Generic[T, A]):
    """A kind of batched call: how one is found on a fresh object, and what its answers must be.

    ``call`` and ``acall`` give the plain call and its async twin, None where there is none.
    ``numbers`` turns an answer into the numbers compared, ``valid`` returns what is wrong with one.
    """

    make: Callable[[], object]
    call: Callable[[object], Callable[[Sequence[T]], Sequence[A]] | None]
    acall: Callable[[object], Callable[[Sequence[T]], Awaitable[Sequence[A]]] | None]
    items: Sequence[T]
    odd: Sequence[T]
    numbers: Callable[[A], Sequence[float]]
    valid: Callable[[A], str | None]
    tolerance: float = TOLERANCE

    def checks(self) -> list[Check]:
        """Return a check for each promise."""
        promises = [
            self.gives_one_valid_answer_each,
            self.keeps_the_order,
            self.answers_alone_as_in_a_batch,
            self.repeats_itself,
            self.answers_equal_items_equally,
            self.takes_an_empty_batch,
            self.changes_no_input,
            self.answers_odd_texts_or_refuses_them_by_name,
            self.answers_many_threads,
            self.answers_async_as_plain,
        ]
        return [Check(each.__name__, partial(each)) for each in promises]

    def _asked(self, items: Sequence[T], *, on: object = None) -> list[A]:
        backend = self.make() if on is None else on
        if (call := self.call(backend)) is not None:
            return list(call(items))
        acall = self.acall(backend)
        promise(acall is not None, f"{type(backend).__name__} has neither the call nor its twin")
        assert acall is not None
        return list(asyncio.run(_awaited(acall, items)))

    def _near(self, one: Sequence[A], other: Sequence[A], message: str) -> None:
        promise(len(one) == len(other), f"{message}: {len(one)} answers against {len(other)}")
        for at, (mine, its) in enumerate(zip(one, other, strict=True)):
            pairs = zip(self.numbers(mine), self.numbers(its), strict=True)
            apart = max((abs(a - b) for a, b in pairs), default=0.0)
            promise(apart <= self.tolerance, f"{message}: answer {at} was {mine}, then {its}")

    def gives_one_valid_answer_each(self) -> None:
        answers = self._asked(self.items)
        promise(
            len(answers) == len(self.items), f"{len(self.items)} items got {len(answers)} answers"
        )
        for at, answer in enumerate(answers):
            wrong = self.valid(answer)
            promise(wrong is None, f"answer {at} is {answer!r}: {wrong}")

    def keeps_the_order(self) -> None:
        backend = self.make()
        there = self._asked(self.items, on=backend)
        back = self._asked(list(reversed(self.items)), on=backend)
        self._near(there, back[::-1], "the same items in reverse")

    def answers_alone_as_in_a_batch(self) -> None:
        backend = self.make()
        together = self._asked(self.items, on=backend)
        alone = [self._asked([item], on=backend)[0] for item in self.items]
        self._near(together, alone, "in a batch, then alone")

    def repeats_itself(self) -> None:
        backend = self.make()
        first, *rest = (self._asked(self.items, on=backend) for _ in range(3))
        for again in rest:
            self._near(first, again, "asked again (is dropout still on?)")

    def answers_equal_items_equally(self) -> None:
        first, second = self._asked([self.items[0], *self.items, self.items[0]])[
            :: len(self.items) + 1
        ]
        self._near([first], [second], "one item twice in a batch")

    def takes_an_empty_batch(self) -> None:
        promise(self._asked([]) == [], "no items must get no answers")

    def changes_no_input(self) -> None:
        given, kept = list(self.items), copy.deepcopy(list(self.items))
        self._asked(given)
        promise(given == kept, "the list of items or an item of it was changed")

    def answers_odd_texts_or_refuses_them_by_name(self) -> None:
        backend = self.make()
        for item in self.odd:
            try:
                (answer,) = self._asked([item], on=backend)
            except FitRagError:
                continue
            promise((wrong := self.valid(answer)) is None, f"{str(item)[:60]!r} gave {wrong}")

    def answers_many_threads(self) -> None:
        backend = self.make()
        expected = self._asked(self.items, on=backend)
        with ThreadPoolExecutor(THREADS) as pool:
            for each in [pool.submit(self._asked, self.items, on=backend) for _ in range(THREADS)]:
                self._near(expected, each.result(), f"from one of {THREADS} threads")

    def answers_async_as_plain(self) -> None:
        backend = self.make()
        acall = self.acall(backend)
        if acall is None or self.call(backend) is None:
            return
        expected = self._asked(self.items, on=backend)
        self._near(expected, list(asyncio.run(_awaited(acall, self.items))), "by the async twin")


async def _awaited(
    acall: Callable[[Sequence[T]], Awaitable[Sequence[A]]], items: Sequence[T]
) -> Sequence[A]:
    return await acall(items)
