"""Whether an encoder may run in bfloat16 on this machine's CPU where nobody named a precision.

The processor has to be faster in it, which some that have it are not, and the states have to stay
near those of float32. Both are tried, the first once in a process.
"""

from __future__ import annotations

import copy
import os
import time
from functools import cache

import torch
from torch import Tensor, nn

from fitrag_integrations.models.encoder.trunk import Trunk, states_of
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import cast

VARIABLE = "FITRAG_CPU_DTYPE"  # float32: nothing is tried; bfloat16: only the numbers are
FASTER = 1.5  # times as fast as float32 at least: by less, rounding is not worth it
APART = 0.05  # of the norm, that states may be from those of float32
LEAST = 1e-4  # s, where a clock is too coarse to tell: then nothing is faster
ROWS, INNER, OUTER = 256, 384, 1536  # of the product that is timed, a small encoder's


def half_will_do(trunk: nn.Module, options: Options) -> bool:
    """Check whether bfloat16 is to be an encoder's precision, where `options` leave that open."""
    said = os.environ.get(VARIABLE, "auto")
    device, _, _ = options.resolved()
    unsaid = options.dtype is None and options.backend in (None, "torch")
    if said == "float32" or not unsaid or device.type != "cpu" or not isinstance(trunk, Trunk):
        return False
    quick = said == "bfloat16" or rate(torch.bfloat16) >= FASTER * rate(torch.float32)
    return quick and near(trunk)


@cache
def rate(dtype: torch.dtype) -> float:
    """Measure this machine's matrix product, in GFLOP/s: the best of a few."""
    left, right = torch.ones(ROWS, INNER, dtype=dtype), torch.ones(INNER, OUTER, dtype=dtype)
    return 2e-9 * ROWS * INNER * OUTER / min(_seconds(left, right) for _ in range(4))


def _seconds(left: Tensor, right: Tensor) -> float:
    began = time.thread_time()  # what else the machine does is not counted
    left @ right
    return max(LEAST, time.thread_time() - began)


@torch.inference_mode()
def near(trunk: Trunk) -> bool:
    """Check whether states in bfloat16 are near those of float32, on some tokens of all kinds."""
    size = trunk.encoder.get_input_embeddings().num_embeddings  # type: ignore[operator]
    ids = (torch.arange(1, 97) * 7919 % size).view(2, -1)
    given = ids, torch.zeros_like(ids), torch.tensor([48, 40])
    half = cast(copy.deepcopy(trunk), torch.bfloat16).eval()
    found, expected = (states_of(one)(*given)[:, :40] for one in (half, trunk.eval()))
    return bool((found - expected).norm() <= APART * expected.norm())
