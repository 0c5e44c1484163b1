"""Bring logits to honest probabilities, by likelihood on rows that were held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.errors import TrainingError


def fit_temperatures(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """Fit one temperature per label by likelihood on held-out pairs (Guo et al., 2017).

    Shapes: (pairs, 2). The logits are divided by it; above 1 the scorer was too sure.
    """
    grid = torch.logspace(-1, 1, 201)
    found = []
    for column in (0, 1):
        known = ~labels[:, column].isnan()
        if not known.any():
            found.append(1.0)
            continue
        scaled = logits[known, column].unsqueeze(0) / grid.unsqueeze(1)
        gold = labels[known, column].unsqueeze(0).expand_as(scaled)
        loss = F.binary_cross_entropy_with_logits(scaled, gold, reduction="none").mean(1)
        found.append(float(grid[int(loss.argmin())]))
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bring logits to honest probabilities: `logit / temperature + shift`."""

    temperature: float
    shift: float


def calibrated(logits: Sequence[float], labels: Sequence[int]) -> Calibration:
    """Fit both numbers by cross-entropy on held-out pairs, by Newton's method (Platt, 1999).

    Raises `TrainingError` where higher logits do not go with the label 1.
    """
    x = torch.tensor(logits, dtype=torch.float64)
    y = torch.tensor(labels, dtype=torch.float64)
    both = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([both], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.binary_cross_entropy_with_logits(x * both[0] + both[1], y)
        value.backward()
        return value

    optimizer.step(loss)
    slope, shift = both.tolist()
    if not (slope > 0 and math.isfinite(shift)):
        raise TrainingError(
            f"the held-out logits do not follow the labels (slope {slope:.3g}), so no temperature "
            "fits: train longer, or on more rows of both kinds"
        )
    return Calibration(1 / slope, shift)
