"""Split a model's input into token batches of bounded size, and into blocks of items."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fitrag_integrations.core.generic import Q, R, T
from fitrag_integrations.errors import DeviceMemoryError, ModelLoadError, raise_if
from fitrag_integrations.models.runtime.worker import ENDING, Steps

BLOCK = 1024  # items encoded at once
PADDING = 1.05  # padded tokens of a batch for each that is there


def token_batches(
    lengths: Sequence[int], *, budget: int, free: int | None = None
) -> Iterator[list[int]]:
    """Split items into batches of similar length with at most `budget` padded tokens.

    Returns index lists that cover every item once, longest first, so that the largest batch fails
    first if memory is short. An item longer than the budget is a batch by itself. Padding takes at
    most a twentieth more than the tokens there are, but in batches of `free` tokens, by default a
    quarter of the budget.
    """
    order, at = sorted(range(len(lengths)), key=lambda i: -lengths[i]), 0
    ranked = [lengths[i] for i in order]
    while at < len(order):
        count = _fitting(ranked, at, budget, free)
        yield order[at : at + count]
        at += count


@dataclass
class Room:
    """Maximum number of padded tokens of a forward pass; it shrinks when one does not fit.

    A pass of up to `free` of them takes no longer for its padding; None is a quarter of `tokens`.
    """

    tokens: int
    free: int | None = None


def in_batches(
    items: Sequence[Q],
    run: Callable[[list[Q]], Sequence[T]],
    *,
    length: Callable[[Q], int],
    budget: Room,
    free: int | None = None,
) -> Steps[list[T]]:
    """Run items in `token_batches`, yielding between batches; results are in the input order.

    `free` defaults to the budget's. A batch that does not fit into the device's memory is retried
    at half its size, which also applies to all later batches. Raises `ModelLoadError` between two
    batches if the interpreter is ending, `DeviceMemoryError` if one item alone does not fit.
    """
    lengths = [length(item) for item in items]
    order, results = sorted(range(len(lengths)), key=lambda i: -lengths[i]), dict[int, T]()
    ranked, free = [lengths[i] for i in order], budget.free if free is None else free
    while len(results) < len(order):
        raise_if(not threading.main_thread().is_alive(), ModelLoadError, ENDING)
        at = len(results)
        batch = order[at : at + _fitting(ranked, at, budget.tokens, free)]
        try:
            found = list(run([items[i] for i in batch]))
        except RuntimeError as error:
            torch = sys.modules.get("torch")  # which not every model needs
            if torch is None or not isinstance(error, torch.OutOfMemoryError):
                raise
            if len(batch) == 1:
                raise DeviceMemoryError(
                    f"no memory for one input of {ranked[at]} tokens: pass a shorter `max_length` "
                    "or `max_new_tokens`, dtype='bfloat16' (or 'float16') if the model is in "
                    f"float32, or free the device of other models and programs ({error})"
                ) from error
            budget.tokens = len(batch) // 2 * ranked[at]
            torch.cuda.empty_cache()
            continue
        results.update(zip(batch, found, strict=True))
        if len(results) < len(order):
            yield len(results), len(items)
    return [results[i] for i in range(len(items))]


def in_blocks(
    items: Sequence[Q], run: Callable[[Sequence[Q]], Steps[list[T]]], *, size: int = BLOCK
) -> Steps[list[T]]:
    """Run items block by block, to limit the memory used besides the answers."""
    found: list[T] = []
    for at in range(0, len(items), size):
        block = items[at : at + size]
        steps = run(block)
        while True:
            try:
                done, of = next(steps)
            except StopIteration as end:
                found += end.value
                break
            yield at + done * len(block) // of, len(items)
        if len(found) < len(items):
            yield len(found), len(items)
    return found


def blockwise(
    run: Callable[[R, Sequence[Q]], Steps[list[T]]],
) -> Callable[[R, Sequence[Q]], Steps[list[T]]]:
    """Decorate a model's task so that it runs block by block."""

    def whole(model: R, items: Sequence[Q]) -> Steps[list[T]]:
        return in_blocks(items, partial(run, model))

    return whole


def in_groups(
    groups: Sequence[Sequence[Q]], run: Callable[[list[Q]], Steps[list[T]]]
) -> Steps[list[list[T]]]:
    """Run the items of all groups as one list; return their results by group."""
    results = iter((yield from run([item for group in groups for item in group])))
    return [[next(results) for _ in group] for group in groups]


def _fitting(ranked: Sequence[int], at: int, budget: int, free: int | None) -> int:
    """Count how many items from `at` on, the longest first, make a batch; at least one."""
    longest, real, best = max(1, ranked[at]), 0, 1
    for count, length in enumerate(ranked[at : at + max(1, budget // longest)], 1):
        real += length
        if count * longest <= max(PADDING * real, budget // 4 if free is None else free):
            best = count
    return best
