"""Calibration of logits, and figures on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.evaluation.ranking import auc


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Fit a temperature by likelihood on held-out pairs (Guo et al., 2017).

    Args:
        logits: Logits. Shape: (pairs,).
        labels: Labels, 0, 1 or NaN where unknown. Shape: (pairs,).

    Returns:
        Number to divide the logits by; above 1 the scorer was overconfident.
    """
    known = ~labels.isnan()
    if not known.any():
        return 1.0
    grid = torch.logspace(-1, 1, 201)
    scaled = logits[known].unsqueeze(0) / grid.unsqueeze(1)
    gold = labels[known].unsqueeze(0).expand_as(scaled)
    loss = F.binary_cross_entropy_with_logits(scaled, gold, reduction="none").mean(1)
    return float(grid[int(loss.argmin())])


def fit_temperatures(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """Fit one temperature for each of two labels.

    Args:
        logits: Logits. Shape: (pairs, 2).
        labels: Labels, 0 or 1. Shape: (pairs, 2).
    """
    first, second = map(fit_temperature, logits.unbind(1), labels.unbind(1))
    return first, second


def figures_of(
    name: str, scores: Sequence[float], gold: Sequence[bool], right_is: str = "positive"
) -> dict[str, float]:
    """Return n, the fraction that is right, accuracy at 0.5, calibration error and AUC.

    Args:
        name: Prefix of the figures' names.
        scores: Probabilities of held-out rows, in [0, 1].
        gold: Whether each is right; without both kinds, there is no AUC.
        right_is: Name of the fraction that is right.
    """
    right = sum((score > 0.5) == known for score, known in zip(scores, gold, strict=True))
    labels = [int(known) for known in gold]
    figures = {
        f"{name} n": len(gold),
        f"{name} {right_is}": sum(labels) / len(gold),
        f"{name} accuracy": right / len(gold),
        f"{name} ECE": calibration_error(scores, labels),
    }
    area = auc(scores, labels)
    if area is not None:
        figures[f"{name} AUC"] = area
    return {key: round(value, 4) for key, value in figures.items()}
