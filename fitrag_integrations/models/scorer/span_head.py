"""The head of the one-pass scorer: two labels for a span of a passage that was read whole."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fitrag_integrations.models.scorer import spans
from fitrag_integrations.models.scorer.spans import SpanEvidence

NUMBERS = spans.COUNT + 2  # with the two labels of the whole passage


class SpanHead(nn.Module):
    """Head with the logits of `has_answer` and `llm_prefer` of each span.

    The labels of the whole passage, plus a line over the mean of the span's states and over the
    passage's vector, plus a layer of `hidden` units over the numbers. `answers` are the two token
    scores of a reader, which the numbers are measured with.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, width: int, *, hidden: int = 32) -> None:
        super().__init__()
        self.answers = nn.Linear(width, 2)
        self.register_buffer("shift", torch.zeros(NUMBERS))
        self.register_buffer("scale", torch.ones(NUMBERS))
        self.means = nn.Linear(width, 2)
        self.pooled = nn.Linear(width, 2, bias=False)
        self.units = nn.Linear(NUMBERS, hidden)
        self.mixed = nn.Linear(hidden, 2, bias=False)

    def standardize(self, numbers: Tensor, wholes: Tensor) -> None:
        """Store the mean and deviation of training spans. Shapes: (spans, 12), (spans, 2)."""
        numbers = torch.cat([numbers, wholes], dim=1)
        self.shift.copy_(numbers.mean(0))
        self.scale.copy_(1 / numbers.std(0).clamp(min=1e-3))

    def forward(self, evidence: SpanEvidence, pooled: Tensor, wholes: Tensor) -> Tensor:
        """Return logits. Shapes: (spans, width), (spans, 2), logits of the passage; (spans, 2)."""
        alike = (torch.cat([evidence.numbers, wholes], dim=1) - self.shift) * self.scale
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
