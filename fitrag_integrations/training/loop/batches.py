"""Which rows a batch has: a function of the seed and the batch's number alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch


def epochs(
    lengths: Sequence[int], size: int, *, seed: int, bucket: int = 50
) -> Callable[[int], list[int]]:
    """Return a function from a step to the row numbers of its batch.

    Each epoch is a fresh permutation under the seed; rows of like length share a batch (sorted
    inside runs of `bucket` batches), and the batches are shuffled again.
    """
    per_epoch = math.ceil(len(lengths) / size)
    plans: dict[int, list[list[int]]] = {}

    def batch(step: int) -> list[int]:
        epoch = step // per_epoch
        if epoch not in plans:
            plans.clear()
            plans[epoch] = _plan(lengths, size, seed * 1_000_003 + epoch, bucket)
        return plans[epoch][step % per_epoch]

    return batch


def _plan(lengths: Sequence[int], size: int, seed: int, bucket: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    batches = []
    for at in range(0, len(order), size * bucket):
        run = sorted(order[at : at + size * bucket], key=lengths.__getitem__)
        batches += [run[i : i + size] for i in range(0, len(run), size)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]
