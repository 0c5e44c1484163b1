"""The losses that several trainers share: of lists, and of the place of an answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Span = tuple[int, int]
FAR = -1e4  # a logit that adds nothing to a sum of exponentials


def list_loss(logits: Tensor, gold: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the mean negative log-probability of a list's positives (ListNet's top one).

    Shapes: logits and gold (pairs,) or (pairs, labels), grouped by question into lists of `sizes`.
    Each label of each list counts the same. One without a positive, of positives only, or with a
    label that is NaN has nothing to rank and is left out; 0 where nothing is left. The whole is one
    pass: nothing waits for the device.
    """
    logits, gold = (given.reshape(len(given), -1) for given in (logits, gold.to(logits.device)))
    lists = _lists(sizes, logits.device)
    inside = (lists >= 0).unsqueeze(-1)
    scores = logits[lists.clamp(min=0)].masked_fill(~inside, -torch.inf)  # (lists, longest, labels)
    right = gold[lists.clamp(min=0)].masked_fill(~inside, 0.0)
    positives = right.sum(1)
    ranked = (positives > 0) & (positives < inside.sum(1))  # of a NaN both are false
    chosen = scores.masked_fill(right != 1, FAR).logsumexp(1)  # finite: so is its gradient
    missed = scores.logsumexp(1) - chosen
    return missed.masked_fill(~ranked, 0.0).sum() / ranked.sum().clamp(min=1)


def _lists(sizes: Sequence[int], device: torch.device) -> Tensor:
    """Return the rows of each list, padded with -1. Shape: (lists, longest)."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    longest = max(sizes, default=0)
    rows = [
        [*range(start, start + size), *[-1] * (longest - size)]
        for start, size in zip(starts, sizes, strict=False)
    ]
    return torch.tensor(rows, device=device)


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
