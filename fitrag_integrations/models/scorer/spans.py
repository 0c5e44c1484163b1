"""What a forward pass over a whole passage already knows about a stretch of it.

A reranker reads the question and the passage together, so every token state has seen both. Of a
span are taken: the mean of its states; how well the question's tokens find a like one in it
(MaxSim; Khattab and Zaharia, 2020); the best answer a reader's token scores mark in it, and their
share of the passage's (Karpukhin et al., 2020, section 6.1); the words it repeats; its length and
place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.models.scorer.items import Range

COUNT = 12
ANSWER_TOKENS = 24
NOTHING = -20.0  # where a score or a logarithm is cut off, and what a span without tokens has


@dataclass(frozen=True, slots=True)
class SpanEvidence:
    """Hold what is known of a chunk's spans. Shapes: (spans, width) and (spans, 12)."""

    means: Tensor
    numbers: Tensor


def span_evidence(
    states: Tensor,
    answers: Tensor,
    chunk: EncodedPair,
    ranges: Sequence[Range],
    rarity: Tensor | None,
) -> SpanEvidence:
    """Measure the spans of one chunk.

    Shapes: states (tokens, width); answers (tokens, 2), columns are where an answer begins and
    ends; rarity (vocabulary,), None weighs all tokens alike. A third column of `answers`, how far
    a token is worth keeping, adds two numbers: its mean and its most in the span.
    """
    device = states.device
    text = torch.from_numpy(chunk.tokens[3] >= 0).to(device)
    bounds = torch.tensor(ranges, device=device).reshape(-1, 2)
    places = torch.arange(len(chunk), device=device)
    inside = (places >= bounds[:, :1]) & (places < bounds[:, 1:]) & text  # (spans, tokens)
    counts = inside.sum(1)
    means = inside.to(states.dtype) @ states / counts.clamp(min=1).unsqueeze(1)
    numbers = [
        *_found(states, chunk, inside, rarity),
        *_answered(answers, inside, text, bounds),
        torch.log1p(counts.float()) / 5,
        counts / text.sum().clamp(min=1),
        bounds[:, 0] / len(chunk),
        bounds[:, 1] / len(chunk),
        *(_kept(answers[:, 2], inside) if answers.shape[1] > 2 else ()),
    ]
    return SpanEvidence(means, torch.stack([number.float() for number in numbers], dim=1))


def _found(
    states: Tensor, chunk: EncodedPair, inside: Tensor, rarity: Tensor | None
) -> tuple[Tensor, ...]:
    """Give MaxSim and the share of the question's words found, each plain and by rarity."""
    asked = torch.from_numpy(np.flatnonzero(chunk.tokens[2] == 1)).to(states.device)
    ids = torch.from_numpy(chunk.tokens[0]).to(states.device, torch.long)
    weights = torch.ones(len(asked), device=states.device)
    if rarity is not None:
        weights = rarity[ids[asked]]
    unit = F.normalize(states, dim=-1)
    near = _most(unit[asked] @ unit.T, inside)
    same = _most((ids[asked].unsqueeze(1) == ids).float(), inside)
    total = weights.sum().clamp(min=1e-6)
    shares = [(best @ weights / total, best.sum(1) / max(1, len(weights))) for best in (near, same)]
    return (*shares[0], *shares[1])


def _most(values: Tensor, inside: Tensor) -> Tensor:
    """Give each question token's largest value inside each span. Shape: (spans, question)."""
    each = values.unsqueeze(0).masked_fill(~inside.unsqueeze(1), -1.0)
    return each.amax(2).clamp(min=0.0)


def _answered(answers: Tensor, inside: Tensor, text: Tensor, bounds: Tensor) -> tuple[Tensor, ...]:
    """Give the best answer's score, that less the passage's best, and the shares of both ends."""
    start = answers[:, 0].masked_fill(~text, -torch.inf)
    end = answers[:, 1].masked_fill(~text, -torch.inf)
    best, most = _best_answers(start, end, inside, bounds)
    shares = [
        (_logsum(side, inside) - side.logsumexp(0)).clamp(min=NOTHING).nan_to_num(NOTHING)
        for side in (start, end)
    ]
    behind = (best - most).clamp(min=NOTHING).nan_to_num(0.0)
    return best.clamp(min=NOTHING), behind, *shares


def _best_answers(
    start: Tensor, end: Tensor, inside: Tensor, bounds: Tensor
) -> tuple[Tensor, Tensor]:
    """Find the best span of at most 24 tokens, in each range and anywhere. Shapes: (spans,), ()."""
    padded = F.pad(end, (0, ANSWER_TOKENS - 1), value=-torch.inf)
    until = padded.unfold(0, ANSWER_TOKENS, 1).cummax(1).values  # (tokens, 24): best end so far
    places = torch.arange(len(start), device=start.device)
    room = (bounds[:, 1:] - places).clamp(1, ANSWER_TOKENS) - 1  # (spans, tokens)
    scores = start + until.gather(1, room.T).T
    best = scores.masked_fill(~inside, -torch.inf).amax(1)
    return best, (start + until[:, -1]).max()


def _kept(keep: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    mean = inside.to(keep.dtype) @ keep / inside.sum(1).clamp(min=1)
    most = keep.unsqueeze(0).masked_fill(~inside, -torch.inf).amax(1)
    return mean, torch.where(inside.any(1), most, torch.zeros_like(most))


def _logsum(values: Tensor, inside: Tensor) -> Tensor:
    return values.unsqueeze(0).masked_fill(~inside, -torch.inf).logsumexp(1)
