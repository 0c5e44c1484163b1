"""Train the bi-label scorer (FIT-RAG 4.2) by cross-entropy on both labels.

Beside the paper's pointwise loss stands a listwise one over each question's passages, because the
scores are used to rank them. The pointwise one may be weighted (section 4.2.2, `imbalance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk, collate
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.models.runtime.batching import token_batches
from fitrag_integrations.training.bilabel.imbalance import Weigher, draw_pairs
from fitrag_integrations.training.bilabel.lists import Batch
from fitrag_integrations.training.bilabel.losses import LISTWISE, losses
from fitrag_integrations.training.loop.device import device_of, full_precision


class BiLabelModule(nn.Module):
    """A trunk and a bi-label head, and their losses over questions with labelled passages.

    Pairs pass through the trunk sorted by length, as many at once as fit into `batch_tokens` with
    their padding, or 16 where it is None. Questions are whole again when their losses are taken.
    """

    def __init__(
        self,
        trunk: Trunk,
        head: BiLabelHead,
        tokenizer: PairTokenizer,
        *,
        evidence: Evidence,
        weigher: Weigher | None = None,
        batch_tokens: int | None = None,
        listwise: float = LISTWISE,
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.weigher = trunk, head, weigher
        self.tokenizer, self.evidence = tokenizer, evidence
        self.batch_tokens, self.listwise = batch_tokens, listwise

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the pointwise and the listwise loss, each the mean over both labels.

        With a weigher the pointwise one comes by group, not weighted yet.
        """
        pooled, features = self.inputs(batch.pairs)
        grouped, listwise = self.weigher is not None, self.listwise
        with full_precision(pooled.device):
            logits = self.head(pooled, features)
            return losses(logits, batch.labels, batch.sizes, grouped=grouped, listwise=listwise)

    def inputs(self, encoded: Sequence[EncodedPair]) -> tuple[Tensor, Tensor]:
        """Return what the head reads of each pair. Shapes: (pairs, width), (pairs, features)."""
        device = device_of(self.trunk)
        pooled: dict[int, Tensor] = {}
        for batch in self._passes([len(pair) for pair in encoded]):
            ids, mask, types = collate(
                [encoded[i] for i in batch], pad_id=self.tokenizer.pad_id, device=device
            )
            vectors = self.trunk.pool(self.trunk(ids, mask, types), mask)
            pooled |= dict(zip(batch, vectors, strict=True))
        stacked = torch.stack([pooled[i] for i in range(len(encoded))])
        return stacked, self.evidence.features(encoded).to(device)

    def _passes(self, lengths: list[int]) -> list[list[int]]:
        if self.batch_tokens is not None:
            return list(token_batches(lengths, budget=self.batch_tokens))
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        return [order[at : at + 16] for at in range(0, len(order), 16)]


@dataclass(frozen=True)
class HeldPairs:
    """Pairs that the head is not fitted on, used to learn the weight of the others.

    Shapes: pooled (pairs, width), features (pairs, features), labels (pairs, 2).
    """

    pooled: Tensor
    features: Tensor
    labels: Tensor

    def loss(self, head: BiLabelHead, rows: Tensor) -> Tensor:
        """Return the mean cross-entropy of some rows, without dropout."""
        head.eval()
        logits = head(self.pooled[rows], self.features[rows])
        head.train()
        return F.binary_cross_entropy_with_logits(logits, self.labels[rows])


def fit_head(
    head: BiLabelHead,
    pooled: Tensor,
    features: Tensor,
    labels: Tensor,
    sizes: Sequence[int],
    *,
    epochs: int = 20,
    rate: float = 5e-3,
    weight_decay: float = 0.05,
    lists: int = 32,
    seed: int = 13,
    weigher: Weigher | None = None,
    held: HeldPairs | None = None,
    momentum: float | None = None,
    listwise: float = LISTWISE,
) -> list[dict[str, float]]:
    """Fit the head alone on vectors computed once, for an encoder that stays as it is.

    By AdamW, or by SGD where a `momentum` is given. A `weigher` weighs the pairs, and learns from
    the pairs `held` out. Gives the losses of each step, with w and those of both groups where there
    is a weigher.
    """
    torch.manual_seed(seed)
    head.standardize(features)
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(
        head.parameters(), lr=rate, weight_decay=weight_decay
    )
    if momentum is not None:
        optimizer = torch.optim.SGD(
            head.parameters(), lr=rate, weight_decay=weight_decay, momentum=momentum
        )
    steps = epochs * -(-len(sizes) // lists)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    head.train()
    seen = []
    for _ in range(epochs):
        for chosen in torch.randperm(len(sizes)).split(lists):
            rows = torch.cat([torch.arange(starts[i], starts[i + 1]) for i in chosen.tolist()])
            lengths = [sizes[i] for i in chosen.tolist()]
            logits = head(pooled[rows], features[rows])
            grouped = weigher is not None
            parts = losses(logits, labels[rows], lengths, grouped=grouped, listwise=listwise)
            seen.append({name: float(value.detach()) for name, value in parts.items()})
            if weigher is not None:
                seen[-1]["w"] = weigher.w.item()
                parts = weigher.weigh(parts, list(head.parameters()))
            optimizer.zero_grad()
            torch.stack(list(parts.values())).sum().backward()
            optimizer.step()
            if weigher is not None and held is not None:
                drawn = draw_pairs(held.labels, weigher.plan.pairs, seed * 1_000_003 + len(seen))
                weigher.move(optimizer, partial(held.loss, head, drawn) if len(drawn) else None)
            schedule.step()
    head.eval()
    return seen
