"""The optimizers a loop may take its steps with."""

from __future__ import annotations

import torch
from torch import nn

OPTIMIZERS = ("adamw", "sgd")


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """List the parameters that train."""
    return [p for p in module.parameters() if p.requires_grad]


def make_optimizer(
    module: nn.Module, name: str, *, rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """Make AdamW or SGD (`momentum` is the latter's); only matrices decay."""
    matrices = [p for p in trainable(module) if p.ndim > 1]
    vectors = [p for p in trainable(module) if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay, "scale": 1.0},
        {"params": vectors, "weight_decay": 0.0, "scale": 1.0},
    ]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=momentum)
    return torch.optim.AdamW(groups, lr=rate)
