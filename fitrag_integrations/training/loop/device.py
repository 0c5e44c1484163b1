"""Where a training runs, and what of it is computed in full precision there."""

from __future__ import annotations

import torch
from torch import nn

from fitrag_integrations.models.runtime.engine import Options


def training_device(name: str | None) -> torch.device:
    """Return the device named, None is CUDA where it is there; raises `InputError` for no
    device.
    """
    return Options(device=name).resolved()[0]


def has_bfloat16(device: torch.device) -> bool:
    """Check whether a device computes in bfloat16 itself; where it is emulated float32 is
    faster.
    """
    return device.type != "cuda" or Options(str(device)).resolved()[1] is torch.bfloat16


def device_of(module: nn.Module) -> torch.device:
    """Return the device that a module's parameters are on."""
    return next(module.parameters()).device


def full_precision(device: torch.device) -> torch.autocast:
    """Compute heads and losses, which are small and what counts, in float32 all the same."""
    return torch.autocast(device.type, enabled=False)
