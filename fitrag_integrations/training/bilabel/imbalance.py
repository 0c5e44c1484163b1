"""Imbalance-aware bi-label learning (FIT-RAG 4.2.2): one weight for pairs whose labels match.

A pair with equal labels weighs w, one with unequal labels 1 - w (equations 2-3), and w is learnt:
after each step on theta it moves down the gradient of the loss on held-out pairs with respect to w
(Algorithm 2). The paper's equations 9-10 have the wrong sign: from theta_k = theta_{k-1} - eta *
grad(w L_mat + (1 - w) L_mis) follows dL_v/dw = -eta * grad L_v(theta_k) . (grad L_mat - grad L_mis)
with the last two at theta_{k-1}. `corrected` uses this, `literal` what is printed.

The paper says nothing about what follows, chosen here. The weighted loss is twice equation 2, so
w = 1/2 is plain cross-entropy. A pair with a label that is not known is in neither group and weighs
as w = 1/2 does. Held-out batches have as many matched as mismatched pairs, so their mean loss is
the mean of equations 6 and 7 that equation 11 goes down. A training batch without mismatched pairs
has L_mis = 0, and the formula holds; without both groups held out, w stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.bilabel.hypergradient import clip_change, sgd_change, step_change

MODES = ("none", "fixed", "corrected", "literal")


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How pairs are weighted.

    `mode`: `none`; `fixed`, w stays; `corrected` and `literal`, w is learnt. `weight` is w or where
    it starts; None is 1/2 where w is learnt, and where it is fixed the share of mismatched pairs,
    under which both groups count the same. `alpha` is the step of w (equation 11), which stays in
    [clip, 1 - clip]. `pairs` of each group are drawn from those held out. `direction` says whose
    step is differentiated: `optimizer`, the one that was taken, with its clipping, momentum and
    scaling; `sgd`, the paper's inner product, which is the derivative under plain SGD only.
    """

    mode: Annotated[
        str, Option("Weighting of pairs: none, fixed, corrected or literal.", name="--imbalance")
    ] = "none"
    weight: Annotated[float | None, Option("Weight w of matched pairs, or where it starts.")] = None
    alpha: Annotated[float, Option("Step of w.")] = 1.0
    clip: Annotated[float, Option("w stays in [clip, 1 - clip].")] = 0.05
    pairs: Annotated[int, Option("Held-out pairs of each group to learn w on.")] = 64
    direction: Annotated[str, Option("Whose step w is learnt through: optimizer or sgd.")] = (
        "optimizer"
    )

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError.of("imbalance", given=self.mode, allowed=", ".join(MODES))
        if self.direction not in ("optimizer", "sgd"):
            raise InputError.of("direction", given=self.direction, allowed="optimizer or sgd")
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise InputError.of("weight", given=self.weight, allowed="0 to 1, or None")
        if not 0 <= self.clip < 0.5:
            raise InputError.of("clip", given=self.clip, allowed="0 or more, below 0.5")
        if not 0 <= self.alpha < float("inf"):
            raise InputError.of("alpha", given=self.alpha, allowed="a number of 0 or more")
        if self.pairs < 1:
            raise InputError.of("pairs", given=self.pairs, allowed="1 or more")

    @property
    def learns(self) -> bool:
        """Whether w is learnt, which needs pairs held out."""
        return self.mode in ("corrected", "literal")


def label_groups(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mark pairs with equal and with unequal labels. Shapes: (pairs, 2), two of (pairs,).

    A pair with a NaN, a label that is not known, is in neither.
    """
    matched = labels[:, 0] == labels[:, 1]
    return matched, ~matched & ~labels.isnan().any(1)


def group_losses(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Split cross-entropy by group (equation 5): the three together are the mean over all labels.

    Shapes: (pairs, 2). A group without pairs has a loss of 0.
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

    `change` is dtheta_k/dw, one tensor per parameter. `literal` gives the sign that is printed.
    """
    pairs = zip(validation, change, strict=True)
    total = float(torch.stack([(one * other).sum() for one, other in pairs]).sum())
    return -total if literal else total


def draw_pairs(labels: Tensor, size: int, seed: int) -> Tensor:
    """Draw as many matched as mismatched pairs, at most `size` of each; gives their row numbers.

    Empty where a group is. The same seed draws the same.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = [mask.nonzero().flatten() for mask in label_groups(labels.cpu())]
    count = min(size, *map(len, rows))
    return torch.cat([r[torch.randperm(len(r), generator=generator)[:count]] for r in rows])


class Weigher(nn.Module):
    """Weight w of the two groups' losses, updated after each step on theta.

    w is a parameter that never gets a gradient: optimizers pass it over, and checkpoints keep it.
    `labels` are those of the training pairs, for the share of mismatched ones. Shape: (pairs, 2).
    """

    def __init__(self, plan: Imbalance, labels: Tensor) -> None:
        super().__init__()
        matched, mismatched = (int(mask.sum()) for mask in label_groups(labels))
        share = mismatched / max(1, matched + mismatched)
        start = plan.weight if plan.weight is not None else 0.5 if plan.learns else share
        start = min(max(start, plan.clip), 1 - plan.clip) if plan.learns else start
        self.plan, self.w = plan, nn.Parameter(torch.tensor(float(start)))
        self._tuned: list[nn.Parameter] = []
        self.push: list[Tensor] = []

    def weigh(
        self,
        parts: dict[str, Tensor],
        parameters: Sequence[nn.Parameter],
        *,
        share: float = 1.0,
    ) -> dict[str, Tensor]:
        """Return the losses to go down: twice equation 2, and what is not weighted as it is.

        Where w is learnt, how the gradient of the parameters changes with w is kept in `push` for
        `move`. Of a step made of several batches, each has its `share`.
        """
        matched, mismatched, w = parts["matched"], parts["mismatched"], self.w.item()
        if self.plan.learns:
            self._tuned = [p for p in parameters if p is not self.w]
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

        `validation` gives the mean loss of held-out pairs, half of them mismatched; None, where
        there are none, leaves w. The gradients had norm `norm` before they were clipped at `limit`.
        """
        push, self.push = self.push, []
        if not self.plan.learns or validation is None:
            return
        tuned = self._tuned
        if self.plan.direction == "sgd":
            change = sgd_change(optimizer, tuned, push)
        else:
            clipped = clip_change(tuned, push, norm=norm, limit=limit)
            change = step_change(optimizer, tuned, clipped)
        found = _gradients(validation(), tuned, keep=False)
        slope = hypergradient(found, change, literal=self.plan.mode == "literal")
        moved = self.w.item() - self.plan.alpha * slope
        self.w.data.fill_(min(max(moved, self.plan.clip), 1 - self.plan.clip))


def _gradients(loss: Tensor, parameters: Sequence[nn.Parameter], *, keep: bool) -> list[Tensor]:
    found = torch.autograd.grad(loss, parameters, retain_graph=keep, allow_unused=True)
    pairs = zip(found, parameters, strict=True)
    return [torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs]
