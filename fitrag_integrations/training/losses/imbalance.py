"""Imbalance-aware bi-label loss (FIT-RAG, section 4.2.2): one weight for pairs whose labels match.

When to use it: where pairs with unequal labels, a passage with the answer that does not help the
model or the reverse, are rare and cross-entropy learns to repeat one label. On balanced rows w
stays near 1/2, which is plain cross-entropy; docs/training.md has what it gained here.

A pair with equal labels weighs w, one with unequal labels 1 - w (equations 2-3), and w is learned:
after each step on theta it moves down the gradient of the loss on held-out pairs with respect to w
(Algorithm 2). The paper's equations 9-10 have the wrong sign: from theta_k = theta_{k-1} - eta *
grad(w L_mat + (1 - w) L_mis) follows dL_v/dw = -eta * grad L_v(theta_k) . (grad L_mat - grad L_mis)
with the last two at theta_{k-1}. `corrected` uses this, `literal` what is printed.

The paper leaves the following open. The weighted loss is twice equation 2, so
w = 1/2 is plain cross-entropy. A pair with a label that is not known is in neither group and weighs
as w = 1/2 does. Held-out batches have as many matched as mismatched pairs, so their mean loss is
the mean of equations 6 and 7 that equation 11 goes down. A training batch without mismatched pairs
has L_mis = 0, and the formula holds; without both groups held out, w stays where it is.

The derivative of one step of the optimizer with respect to w: with g the gradient of the step and
u = dg/dw, `clip_change` and `step_change` return it for each parameter. It is that of this step
alone: how earlier steps, their momentum and scaling depended on w is left out, as in Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError, refuse_if


@dataclass(frozen=True, slots=True)
class Imbalance(Checked):
    """Weighting of pairs by whether their labels match.

    Args:
        mode: "none"; "fixed", w stays; "corrected" and "literal", w is learned.
        weight: w, or where it starts. None is 1/2 where w is learned, and the fraction of
            mismatched pairs where it is fixed, so that both groups count the same.
        alpha: Step of w (equation 11).
        clip: w stays in [clip, 1 - clip].
        pairs: Held-out pairs of each group that w is learned on.
    """

    mode: Annotated[
        str,
        Option(
            "Weighting of pairs: none, fixed, corrected or literal.",
            name="--imbalance",
            among=("none", "fixed", "corrected", "literal"),
        ),
    ] = "none"
    weight: Annotated[
        float | None, Option("Weight w of matched pairs, or where it starts.", min=0, max=1)
    ] = None
    alpha: Annotated[float, Option("Step of w.", min=0)] = 1.0
    clip: Annotated[float, Option("w stays in [clip, 1 - clip].", min=0, max=0.49)] = 0.05
    pairs: Annotated[int, Option("Held-out pairs of each group that w is learned on.", min=1)] = 64

    @property
    def learns(self) -> bool:
        """Return whether w is learned, which needs pairs held out."""
        return self.mode in ("corrected", "literal")


def label_groups(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mark pairs with equal and with unequal labels. Shapes: (pairs, 2), two of (pairs,).

    A pair with a NaN, a label that is not known, is in neither.
    """
    matched = labels[:, 0] == labels[:, 1]
    return matched, ~matched & ~labels.isnan().any(1)


def group_losses(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Split cross-entropy by group (equation 5): the three together are the mean over all labels.

    Args:
        logits: Logits of both labels. Shape: (pairs, 2).
        labels: Labels, 0, 1 or NaN where unknown. Same shape.

    Returns:
        Losses of the "matched", "mismatched" and "unpaired", shape (); 0 for a group without pairs.
    """
    labels = labels.to(logits)
    known = ~labels.isnan()
    each = F.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    pair = (each * known).sum(1) / known.sum().clamp(min=1)
    matched, mismatched = label_groups(labels)
    return {
        "matched": (pair * matched).sum(),
        "mismatched": (pair * mismatched).sum(),
        "unpaired": (pair * (~matched & ~mismatched)).sum(),
    }


def hypergradient(
    validation: Sequence[Tensor], change: Sequence[Tensor], *, literal: bool = False
) -> float:
    """Return dL_v/dw: the gradient of L_v at theta_k times dtheta_k/dw (equations 9-10).

    Args:
        validation: Gradient of L_v, one tensor per parameter.
        change: dtheta_k/dw, one tensor per parameter.
        literal: Whether to use the sign that is printed.
    """
    pairs = zip(validation, change, strict=True)
    total = float(torch.stack([(one * other).sum() for one, other in pairs]).sum())
    return -total if literal else total


def draw_pairs(labels: Tensor, size: int, seed: int) -> Tensor:
    """Draw as many matched as mismatched pairs; the same seed draws the same.

    Args:
        labels: Labels. Shape: (pairs, 2).
        size: Maximum number of pairs of each group.
        seed: Seed of the draw.

    Returns:
        Row numbers; empty where a group is.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = [mask.nonzero().flatten() for mask in label_groups(labels.cpu())]
    count = min(size, *map(len, rows))
    return torch.cat([r[torch.randperm(len(r), generator=generator)[:count]] for r in rows])


class Weigher(nn.Module):
    """Weight w of the two groups' losses, updated after each step on theta (Algorithm 2).

    w is a buffer: optimizers skip it, and checkpoints keep it.

    Args:
        plan: How pairs are weighted.
        labels: Labels of the training pairs, whose mismatched ones count. Shape: (pairs, 2).

    Example:
        >>> labels = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
        >>> weigher = Weigher(Imbalance("fixed", weight=0.25), labels)
        >>> parts = weigher.weigh(group_losses(torch.zeros(2, 2), labels), [])
        >>> parts["matched"], parts["mismatched"]
        (tensor(0.1733), tensor(0.5199))
    """

    w: Tensor

    def __init__(self, plan: Imbalance, labels: Tensor) -> None:
        super().__init__()
        matched, mismatched = (int(mask.sum()) for mask in label_groups(labels))
        share = mismatched / max(1, matched + mismatched)
        start = plan.weight if plan.weight is not None else 0.5 if plan.learns else share
        start = min(max(start, plan.clip), 1 - plan.clip) if plan.learns else start
        self.plan = plan
        self.register_buffer("w", torch.tensor(float(start)))
        self._tuned: list[nn.Parameter] = []
        self.push: list[Tensor] = []

    def weigh(
        self,
        parts: dict[str, Tensor],
        parameters: Sequence[nn.Parameter],
        *,
        share: float = 1.0,
    ) -> dict[str, Tensor]:
        """Return the losses to minimize: twice equation 2, and the other losses unchanged.

        If w is learned, the derivative of the gradients with respect to w is stored in `push`, for
        `move`.

        Args:
            parts: Losses by name, `matched` and `mismatched` among them.
            parameters: Parameters that train.
            share: Weight of the batch in a step made of several.
        """
        matched, mismatched, w = parts["matched"], parts["mismatched"], self.w.item()
        if self.plan.learns:
            self._tuned = list(parameters)
            found = _gradients(2 * share * (matched - mismatched), self._tuned, keep=True)
            before = self.push or map(torch.zeros_like, found)
            self.push = [one + other for one, other in zip(before, found, strict=True)]
        return parts | {"matched": 2 * w * matched, "mismatched": 2 * (1 - w) * mismatched}

    def move(
        self,
        optimizer: torch.optim.Optimizer,
        validation: Callable[[], Tensor] | None,
        *,
        norm: float = 0.0,
        limit: float = float("inf"),
    ) -> None:
        """Move w after a step of the optimizer, while the parameters still hold its gradients.

        Args:
            optimizer: The optimizer.
            validation: Function that returns the mean loss of held-out pairs, half of them
                mismatched; None if there are none, and w stays where it is.
            norm: Norm of the gradients before they were clipped.
            limit: Norm at which they were clipped.
        """
        push, self.push = self.push, []
        if not self.plan.learns or validation is None:
            return
        tuned = self._tuned
        change = step_change(optimizer, tuned, clip_change(tuned, push, norm=norm, limit=limit))
        found = _gradients(validation(), tuned, keep=False)
        slope = hypergradient(found, change, literal=self.plan.mode == "literal")
        moved = self.w.item() - self.plan.alpha * slope
        self.w.fill_(min(max(moved, self.plan.clip), 1 - self.plan.clip))


def _gradients(loss: Tensor, parameters: Sequence[nn.Parameter], *, keep: bool) -> list[Tensor]:
    found = torch.autograd.grad(loss, parameters, retain_graph=keep, allow_unused=True)
    pairs = zip(found, parameters, strict=True)
    return [torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs]


def clip_change(
    parameters: Sequence[nn.Parameter], change: Sequence[Tensor], *, norm: float, limit: float
) -> list[Tensor]:
    """Return dg/dw of gradients that were clipped to a total norm.

    Args:
        parameters: Parameters that hold the clipped gradients.
        change: dg/dw of each before clipping.
        norm: Norm that `clip_grad_norm_` returned.
        limit: Norm at which the gradients were clipped.
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

    The result is exact for `SGD`, where `hypergradient` is then the paper's inner product, and for
    `AdamW`, where both the mean and the scale move with the gradient.

    Args:
        optimizer: The optimizer.
        parameters: Parameters that train.
        change: dg/dw of each, after clipping.

    Raises:
        InputError: For other optimizers, and for Nesterov's momentum, dampening and amsgrad.
    """
    groups = {p: group for group in optimizer.param_groups for p in group["params"]}
    extras = [
        name
        for name in ("nesterov", "dampening", "amsgrad")
        if any(group.get(name) for group in groups.values())
    ]
    refuse_if(extras, "optimizer", extras, "SGD or AdamW without any of these")
    pairs = zip(parameters, change, strict=True)
    if isinstance(optimizer, torch.optim.SGD):
        return [-groups[p]["lr"] * u for p, u in pairs]
    if isinstance(optimizer, torch.optim.AdamW):
        return [_adamw(groups[p], optimizer.state[p], p, u) for p, u in pairs]
    raise InputError.of("optimizer", given=type(optimizer).__name__, allowed="SGD or AdamW")


def _adamw(group: dict[str, Any], state: dict[str, Tensor], p: nn.Parameter, u: Tensor) -> Tensor:
    """Differentiate mean / (sqrt(square) + eps), both after the step and corrected for bias."""
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
