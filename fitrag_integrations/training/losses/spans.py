"""Losses of the place of an answer in a passage, or of its absence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from fitrag_integrations.text.spans import Span


def span_between(offsets: Iterable[Span | None], start: int, end: int) -> Span | None:
    """Return the first and last token that overlap a range of characters, or None if none does.

    Args:
        offsets: Characters of each token, None for one outside the text.
        start: First character.
        end: Character after the last.
    """
    inside = [i for i, at in enumerate(offsets) if at and at[0] < end and at[1] > start]
    return (inside[0], inside[-1]) if inside else None


def span_loss(logits: Tensor, spans: Sequence[Span]) -> Tensor:
    """Compute the loss of a reader where the answer occurs at one or several places.

    Minus the log of the summed probability of all places, halved for its two ends: the marginal
    likelihood, which lets the model choose the place that the question means.

    Source: DPR's reader (Karpukhin et al., 2020, section 6.1), and for several places Clark and
    Gardner (2018, section 2.1).

    When to use it: for passages that contain the answer. `span_or_nowhere_loss` also learns from
    those that do not.

    Args:
        logits: Scores of the first and the last token. Shape: (tokens, 2).
        spans: First and last token of each place; at least one.

    Returns:
        The loss, shape ().

    Example:
        >>> span_loss(torch.zeros(4, 2), [(1, 2)])  # log 4
        tensor(1.3863)
    """
    log = logits.log_softmax(0)
    return -torch.stack([log[first, 0] + log[last, 1] for first, last in spans]).logsumexp(0) / 2


def span_or_nowhere_loss(scores: Sequence[Tensor], golds: Sequence[list[Span] | None]) -> Tensor:
    """Compute `span_loss` for passages that may hold no answer, a place with the score 0.

    Source: the first token's part in reading unanswerable questions (Rajpurkar et al., 2018); here
    a constant, so that a best span above 0 says that there is an answer.

    When to use it: for evaluators and readers that see passages without an answer.

    Args:
        scores: Scores of the first and the last token of each passage. Shape each: (tokens, 2).
        golds: Places of the answer in each; an empty list if the passage does not hold it, None if
            that is unknown, and the passage then does not count.

    Returns:
        The mean loss, shape (); 0 where no passage counts.

    Example:
        >>> span_or_nowhere_loss([torch.zeros(3, 2)], [[]])  # log 4
        tensor(1.3863)
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
