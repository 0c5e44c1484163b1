"""Losses that several trainers share, calibration of logits, and figures on held-out rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.evaluation.outcomes import calibration_error

Span = tuple[int, int]
FAR = -1e4  # a logit that adds nothing to a sum of exponentials


def list_loss(logits: Tensor, gold: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the mean negative log-probability of a list's positives (ListNet's top one).

    Each label of each list counts the same. A list without a positive, of positives only, or with a
    NaN has nothing to rank and is left out; 0 if nothing is left. Nothing waits for the device.

    Args:
        logits: Logits, grouped by question. Shape: (pairs,) or (pairs, labels).
        gold: Labels, 0, 1 or NaN. Same shape.
        sizes: Number of pairs of each list.
    """
    logits, gold = (given.reshape(len(given), -1) for given in (logits, gold.to(logits.device)))
    rows = torch.arange(len(logits)).split(list(sizes))
    padded = pad_sequence(list(rows), batch_first=True, padding_value=-1)
    lists = padded.to(logits.device)  # (lists, longest)
    inside = (lists >= 0).unsqueeze(-1)
    scores = logits[lists.clamp(min=0)].masked_fill(~inside, -torch.inf)  # (lists, longest, labels)
    right = gold[lists.clamp(min=0)].masked_fill(~inside, 0.0)
    positives = right.sum(1)
    ranked = (positives > 0) & (positives < inside.sum(1))  # of a NaN both are false
    chosen = scores.masked_fill(right != 1, FAR).logsumexp(1)  # finite: so is its gradient
    missed = scores.logsumexp(1) - chosen
    return missed.masked_fill(~ranked, 0.0).sum() / ranked.sum().clamp(min=1)


def span_between(offsets: Iterable[Span | None], start: int, end: int) -> Span | None:
    """Return the first and last token within some characters of a text; None where there is none.

    Args:
        offsets: Characters of each token, None for one outside the text.
        start: First character.
        end: One past the last.
    """
    inside = [i for i, at in enumerate(offsets) if at and at[0] < end and at[1] > start]
    return (inside[0], inside[-1]) if inside else None


def span_loss(logits: Tensor, spans: Sequence[Span]) -> Tensor:
    """Return minus the log of the summed probability of some spans, halved: its two ends.

    Shape: (tokens, 2); columns are the first and the last token.
    """
    log = logits.log_softmax(0)
    return -torch.stack([log[first, 0] + log[last, 1] for first, last in spans]).logsumexp(0) / 2


def span_or_nowhere_loss(scores: Sequence[Tensor], golds: Sequence[list[Span] | None]) -> Tensor:
    """Fit where the answer is, among all tokens and the chance, of score 0, that it is nowhere.

    An empty list of golds is an answer that is nowhere, None one of which nobody knows.
    """
    parts = [
        span_loss(
            torch.cat([logits.new_zeros(1, 2), logits]),
            [(first + 1, last + 1) for first, last in spans or [(-1, -1)]],
        )
        for logits, spans in zip(scores, golds, strict=True)
        if spans is not None
    ]
    return torch.stack(parts).mean() if parts else scores[0].sum() * 0


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
    """Fit one temperature for each of two labels. Shapes: (pairs, 2)."""
    first, second = map(fit_temperature, logits.unbind(1), labels.unbind(1))
    return first, second


def figures_of(name: str, scores: Sequence[float], gold: Sequence[bool]) -> dict[str, float]:
    """Return AUC, accuracy at 0.5 and calibration error on held-out rows.

    Args:
        name: Prefix of the figures' names.
        scores: Probabilities in [0, 1].
        gold: Whether each is right; without both kinds there is no AUC.
    """
    metrics = require_extra("sklearn.metrics", extra="train", feature="the AUC of a fitted gate")
    right = sum((score > 0.5) == known for score, known in zip(scores, gold, strict=True))
    labels = [int(known) for known in gold]
    figures = {
        f"{name} accuracy": right / len(gold),
        f"{name} ECE": calibration_error(scores, labels),
    }
    if 0 < sum(labels) < len(labels):
        figures[f"{name} AUC"] = float(metrics.roc_auc_score(labels, scores))
    return {key: round(value, 4) for key, value in figures.items()}
