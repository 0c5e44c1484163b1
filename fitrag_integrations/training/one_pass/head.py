"""Fit the head of the one-pass scorer: what a window would have been given, without reading it.

The teacher is the scorer itself over each window as a text of its own; where the answers are known,
whether they stand in the window counts as well. The encoder stays as it is, so each passage is read
once and the head learns from what was kept of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.scorer.span_head import SpanHead
from fitrag_integrations.training.one_pass.rows import Spans


class OnePassModule(nn.Module):
    """A span head and its losses over questions."""

    def __init__(self, head: SpanHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, questions: Sequence[Spans]) -> dict[str, Tensor]:
        """Return the losses of labels and of the order of a question's spans."""
        logits = [self.logits(each) for each in questions]
        label = [
            F.binary_cross_entropy_with_logits(some, each.targets)
            for some, each in zip(logits, questions, strict=True)
        ]
        order = [order_loss(some, each) for some, each in zip(logits, questions, strict=True)]
        return {"label": torch.stack(label).mean(), "order": torch.stack(order).mean()}

    def logits(self, spans: Spans) -> Tensor:
        """Return the logits of a question's spans. Shape: (spans, 2)."""
        found: Tensor = self.head(spans.evidence, spans.pooled, spans.wholes)
        return found


def order_loss(logits: Tensor, spans: Spans) -> Tensor:
    """Return the cross-entropy of each passage's spans against the shares the targets give them."""
    each = []
    for i in spans.passage.unique():
        own = spans.passage == i
        wanted = spans.targets[own].logit(eps=1e-4).softmax(0)
        each.append(-(wanted * logits[own].log_softmax(0)).sum(0).mean())
    return torch.stack(each).mean()
