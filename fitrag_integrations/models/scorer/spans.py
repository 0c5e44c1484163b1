"""What a forward pass over a whole passage already knows about a stretch of it.

A reranker reads the question and the passage together, so every token state has seen both. Of a
span are taken: the mean of its states; how well the question's tokens find a like one in it
(MaxSim; Khattab and Zaharia, 2020); the best answer a reader's token scores mark in it, and their
share of the passage's (Karpukhin et al., 2020, section 6.1); the words it repeats; its length and
place. A head turns them into the two labels of the span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.encoder.heads import Standardized
from fitrag_integrations.models.encoder.items import ANSWER_TOKENS, NOTHING, Range
from fitrag_integrations.models.encoder.pairs import Batch, moved_left

COUNT = 12
NUMBERS = COUNT + 2  # with the two labels of the whole passage
HELD = 2**24  # numbers compared at once, or those of one chunk


@dataclass(frozen=True, slots=True)
class SpanEvidence:
    """Features of spans, chunk by chunk. Shapes: (spans, width) and (spans, 12)."""

    means: Tensor
    numbers: Tensor


def span_evidence(
    states: Tensor,
    answers: Tensor,
    batch: Batch,
    ranges: Sequence[Sequence[Range]],
    rarity: Tensor | None,
) -> SpanEvidence:
    """Measure the spans of a batch, `ranges[i]` those of its chunk i, in their order.

    Shapes: states (batch, tokens, width); answers (batch, tokens, 2), columns are where an answer
    begins and ends; rarity (vocabulary,), None weighs all tokens alike. A third column of
    `answers`, how far a token is worth keeping, adds two numbers: its mean and most in a span.
    """
    most, rows = max(map(len, ranges), default=0), len(ranges)
    asked = batch.side(1, fill=-1)
    if rows > 1 and rows * most * asked.shape[1] * states.shape[1] > HELD:
        parts = [
            span_evidence(states[at], answers[at], batch.rows(at), ranges[at], rarity)
            for at in (slice(0, rows // 2), slice(rows // 2, rows))
        ]
        return SpanEvidence(
            torch.cat([part.means for part in parts]), torch.cat([part.numbers for part in parts])
        )
    device = states.device
    text = torch.from_numpy(batch.placed).to(device)
    bounds, there = (each.to(device) for each in _filled(ranges, most))
    longest = max((end - begin for each in ranges for begin, end in each), default=1)
    places = torch.arange(states.shape[1], device=device)
    inside = (places >= bounds[..., :1]) & (places < bounds[..., 1:]) & text.unsqueeze(1)
    counts, at = inside.sum(2), _Spans.of(bounds, text, longest)
    means = inside.to(states.dtype) @ states / counts.clamp(min=1).unsqueeze(2)
    sizes = torch.from_numpy(batch.lengths).to(device).unsqueeze(1)
    numbers = [
        *_found(states, batch, at, rarity),
        *_answered(answers, at, text),
        torch.log1p(counts.float()) / 5,
        counts / text.sum(1, keepdim=True).clamp(min=1),
        bounds[..., 0] / sizes,
        bounds[..., 1] / sizes,
        *(_kept(answers[..., 2], at) if answers.shape[2] > 2 else ()),
    ]
    found = torch.stack([number.float() for number in numbers], dim=2)
    return SpanEvidence(means.flatten(0, 1)[there], found.flatten(0, 1)[there])


@dataclass(frozen=True, slots=True)
class _Spans:
    """Tokens of spans; all shapes (batch, spans, tokens of the longest).

    `inside` says which of `places` are of the span and of the text, `room` how many more tokens an
    answer that begins there may have.
    """

    places: Tensor
    inside: Tensor
    room: Tensor

    @classmethod
    def of(cls, bounds: Tensor, text: Tensor, longest: int) -> _Spans:
        """Lay the tokens of spans side by side. Shapes: (batch, spans, 2), (batch, tokens)."""
        wide = bounds[..., :1] + torch.arange(max(1, longest), device=bounds.device)
        places = wide.clamp(max=text.shape[1] - 1)
        inside = (wide < bounds[..., 1:]) & text.gather(1, places.flatten(1)).view(places.shape)
        room = (bounds[..., 1:] - wide).clamp(1, ANSWER_TOKENS) - 1
        return cls(places, inside, room)

    def of_each(self, values: Tensor, fill: float) -> Tensor:
        """Select the spans' values of (..., tokens), `fill` where there is no token of the text.

        Shape: (batch, ..., spans, tokens of the longest).
        """
        among = self.places.flatten(1)[:, *[None] * (values.dim() - 2)]
        taken = values.gather(-1, among.expand(*values.shape[:-1], -1))
        outside = ~self.inside[:, *[None] * (values.dim() - 2)]
        found: Tensor = taken.unflatten(-1, self.places.shape[1:]).masked_fill_(outside, fill)
        return found


def _filled(ranges: Sequence[Sequence[Range]], most: int) -> tuple[Tensor, Tensor]:
    """Fill up each chunk's spans with empty ones; gives them, and the places of the true ones.

    Shapes: (batch, most, 2), (spans,), places in batch and spans laid flat. No device is asked.
    """
    there = np.arange(most) < np.array([len(each) for each in ranges]).reshape(-1, 1)
    bounds = np.zeros((*there.shape, 2), dtype=np.int64)
    bounds[there] = np.array([span for each in ranges for span in each]).reshape(-1, 2)
    return torch.from_numpy(bounds), torch.from_numpy(np.flatnonzero(there))


def _found(
    states: Tensor, batch: Batch, spans: _Spans, rarity: Tensor | None
) -> tuple[Tensor, ...]:
    """Return MaxSim and the share of the question's words found, each plain and by rarity."""
    mine = batch.tokens[2] == 1
    everywhere = np.broadcast_to(np.arange(mine.shape[1], dtype=np.int32), mine.shape)
    places = torch.from_numpy(moved_left(everywhere, mine, fill=-1)).to(states.device, torch.long)
    ids = torch.from_numpy(batch.tokens[0]).to(states.device, torch.long)
    asked = places >= 0
    at = torch.arange(len(ids), device=states.device).unsqueeze(1), places.clamp(min=0)
    weights = asked.float() if rarity is None else rarity[ids[at]] * asked
    sizes = states.norm(dim=-1).clamp(min=1e-12).unsqueeze(1)
    near = _most(F.normalize(states[at], dim=-1) @ states.mT / sizes, spans)
    same = _most((ids[at].unsqueeze(2) == ids.unsqueeze(1)).float(), spans)
    total = weights.sum(1).clamp(min=1e-6)[:, None]
    count = asked.sum(1).clamp(min=1)[:, None]
    shares = [
        (_weighed(best, weights) / total, _weighed(best, asked.float()) / count)
        for best in (near, same)
    ]
    return (*shares[0], *shares[1])


def _most(values: Tensor, spans: _Spans) -> Tensor:
    """Return each question token's largest value inside each span: (batch, spans, question)."""
    return spans.of_each(values, -1.0).amax(3).clamp(min=0.0).mT


def _weighed(best: Tensor, weights: Tensor) -> Tensor:
    """Sum over the question's tokens. Shape: (batch, spans)."""
    return (best @ weights.unsqueeze(2)).squeeze(2)


def _answered(answers: Tensor, spans: _Spans, text: Tensor) -> tuple[Tensor, ...]:
    """Return the best answer's score, that less the passage's best, and the shares of both ends."""
    start, end = answers[..., :2].masked_fill(~text.unsqueeze(2), -torch.inf).unbind(2)
    padded = F.pad(end, (0, ANSWER_TOKENS - 1), value=-torch.inf)
    until = padded.unfold(1, ANSWER_TOKENS, 1).cummax(2).values  # best end so far, of 24 tokens
    which = spans.places * ANSWER_TOKENS + spans.room
    ends = until.flatten(1).gather(1, which.flatten(1)).view(which.shape)
    best = (spans.of_each(start, -torch.inf) + ends).amax(2)  # in each span
    most = (start + until[..., -1]).amax(1, keepdim=True)  # anywhere
    shares = [
        spans.of_each(side, -torch.inf).logsumexp(2) - side.logsumexp(1, keepdim=True)
        for side in (start, end)
    ]
    behind = (best - most).clamp(min=NOTHING).nan_to_num(0.0)
    cut = (share.clamp(min=NOTHING).nan_to_num(NOTHING) for share in shares)
    return best.clamp(min=NOTHING), behind, *cut


def _kept(keep: Tensor, spans: _Spans) -> tuple[Tensor, Tensor]:
    counts = spans.inside.sum(2)
    most = spans.of_each(keep, -torch.inf).amax(2)
    mean = spans.of_each(keep, 0.0).sum(2) / counts.clamp(min=1)
    return mean, torch.where(counts > 0, most, torch.zeros_like(most))


class SpanHead(Standardized):
    """Head with the logits of `has_answer` and `llm_prefer` of each span.

    The labels of the whole passage, plus a line over the mean of the span's states and over the
    passage's vector, plus a layer of `hidden` units over the numbers. `answers` are the two token
    scores of a reader, which the numbers are measured with.
    """

    def __init__(self, width: int, *, hidden: int = 32) -> None:
        super().__init__(NUMBERS)
        self.answers = nn.Linear(width, 2)
        self.means = nn.Linear(width, 2)
        self.pooled = nn.Linear(width, 2, bias=False)
        self.units = nn.Linear(NUMBERS, hidden)
        self.mixed = nn.Linear(hidden, 2, bias=False)

    def forward(self, evidence: SpanEvidence, pooled: Tensor, wholes: Tensor) -> Tensor:
        """Return logits. Shapes: (spans, width), (spans, 2), logits of the passage; (spans, 2)."""
        alike = self.alike(torch.cat([evidence.numbers, wholes], dim=1))
        mixed = self.mixed(torch.tanh(self.units(alike)))
        logits: Tensor = wholes + self.means(evidence.means) + self.pooled(pooled) + mixed
        return logits


class LineHead(nn.Module):
    """Head that is linear in the features of a span and the labels of its passage.

    `answers` are the two token scores of a reader, and how far a token is worth keeping.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.answers = nn.Linear(width, 3)
        self.line = nn.Linear(NUMBERS + 2, 2)

    def forward(self, evidence: SpanEvidence, pooled: Tensor, wholes: Tensor) -> Tensor:
        """Return logits. Shapes as those of `SpanHead`; `pooled` is not looked at."""
        logits: Tensor = self.line(torch.cat([evidence.numbers, wholes], dim=1))
        return logits
