"""How one step of an optimizer changes with a weight inside its loss.

With g the gradient that a step is made of and u = dg/dw, each function gives a derivative along w
of what was done, one tensor per parameter. It is that of this step alone: how earlier steps, their
momentum and their scaling depended on w is left out, as FIT-RAG's Algorithm 2 leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fitrag_integrations.errors import InputError


def sgd_change(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], change: Sequence[Tensor]
) -> list[Tensor]:
    """Return dtheta/dw = -rate * u of a plain SGD step, with the optimizer's rates."""
    groups = _groups(optimizer)
    return [-groups[p]["lr"] * u for p, u in zip(parameters, change, strict=True)]


def clip_change(
    parameters: Sequence[nn.Parameter], change: Sequence[Tensor], *, norm: float, limit: float
) -> list[Tensor]:
    """Return how gradients clipped to a total norm of `limit` change, given u of the whole ones.

    The parameters hold the clipped gradients; `norm` is what `clip_grad_norm_` returned.
    """
    if norm + 1e-6 <= limit:
        return list(change)
    held = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    factor = limit / (norm + 1e-6)
    products = [(g * u).sum() for g, u in zip(held, change, strict=True)]
    along = float(torch.stack(products).sum()) / factor / norm
    return [factor * u - g * (along / (norm + 1e-6)) for g, u in zip(held, change, strict=True)]


def step_change(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], change: Sequence[Tensor]
) -> list[Tensor]:
    """Return dtheta/dw of the step just taken, while the parameters still hold its gradients.

    Exact for `SGD`, with momentum and Nesterov, and for `AdamW`, where both the mean and the scale
    move with the gradient. Other optimizers, dampening and amsgrad raise `InputError`.
    """
    groups = _groups(optimizer)
    if isinstance(optimizer, torch.optim.SGD):
        return [_sgd(groups[p], u) for p, u in zip(parameters, change, strict=True)]
    if isinstance(optimizer, torch.optim.AdamW):
        return [
            _adamw(groups[p], optimizer.state[p], p, u)
            for p, u in zip(parameters, change, strict=True)
        ]
    raise InputError.of("optimizer", given=type(optimizer).__name__, allowed="SGD or AdamW")


def _groups(optimizer: torch.optim.Optimizer) -> dict[nn.Parameter, dict[str, Any]]:
    return {p: group for group in optimizer.param_groups for p in group["params"]}


def _sgd(group: dict[str, Any], u: Tensor) -> Tensor:
    if group["dampening"]:
        raise InputError.of("dampening", given=group["dampening"], allowed="0")
    rate: float = group["lr"]
    carried: float = group["momentum"] if group["nesterov"] else 0.0
    return -rate * (1 + carried) * u


def _adamw(group: dict[str, Any], state: dict[str, Tensor], p: nn.Parameter, u: Tensor) -> Tensor:
    """Differentiate mean / (sqrt(square) + eps), both after the step and corrected for bias."""
    if group["amsgrad"]:
        raise InputError.of("amsgrad", given=True, allowed="False")
    if p.grad is None or "exp_avg" not in state:
        return torch.zeros_like(u)
    first, second = group["betas"]
    passed = 1 - first ** float(state["step"]), 1 - second ** float(state["step"])
    mean, root = state["exp_avg"] / passed[0], (state["exp_avg_sq"] / passed[1]).sqrt()
    mean_moves = (1 - first) / passed[0] * u
    root_moves = (1 - second) / passed[1] * p.grad * u / root.clamp(min=torch.finfo(u.dtype).tiny)
    below = root + group["eps"]
    moved: Tensor = -group["lr"] * (mean_moves / below - mean * root_moves / below**2)
    return moved
