"""The bi-label scorer in training (FIT-RAG 4.2): its data as tensors, its losses, its module.

Cross-entropy on both labels of each pair is the paper's loss. A listwise loss over each question's
passages is added, because the scores rank them. The first may be weighted (section 4.2.2,
`imbalance`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.progress import chunks
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.encoder import trunk_passes
from fitrag_integrations.training.losses import list_loss
from fitrag_integrations.training.losses.imbalance import Weigher, draw_pairs, group_losses
from fitrag_integrations.training.rows import Labelled, refuse_shared, split
from fitrag_integrations.training.trainer import device_of, full_precision

AT_ONCE = 8  # questions whose pairs are encoded together where nothing is learnt from them


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded pairs of some questions, their labels, and the number of pairs per question.

    Labels have the shape (pairs, 2); columns are has_answer, llm_prefer; NaN is unknown.
    """

    pairs: list[EncodedPair]
    labels: Tensor
    sizes: list[int]


class Lists:
    """Iterator over batches of questions; the pairs of a batch are encoded when it is requested."""

    def __init__(self, rows: Sequence[Labelled], tokenizer: PairTokenizer) -> None:
        self.rows, self._tokenizer = rows, tokenizer
        self.sizes = [len(row.passages) for row in rows]
        self._starts = [0, *torch.tensor(self.sizes, dtype=torch.long).cumsum(0).tolist()]
        has = [float(label) for row in rows for label in row.has_answer]
        prefer = [
            math.nan if label is None else float(label) for row in rows for label in row.llm_prefer
        ]
        self.labels = torch.tensor([has, prefer]).T.contiguous()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """The characters of each question's longest passage."""
        return [max(len(passage.text) for passage in row.passages) for row in self.rows]

    @property
    def texts(self) -> set[str]:
        """Return the texts of the passages."""
        return {f"{p.title} {p.text}" for row in self.rows for p in row.passages}

    def encoded(self, places: Iterable[int]) -> Batch:
        """Encode the questions at some indices, each pair as its first chunk."""
        chosen = list(places)
        rows = [self.rows[i] for i in chosen]
        pairs = [pair for row in rows for pair in row.pairs]
        labels = [self.labels[slice(*self.pairs_of(i, i + 1))] for i in chosen]
        sizes = [self.sizes[i] for i in chosen]
        return Batch(self._tokenizer.encode_cut(pairs), torch.cat(labels), sizes)

    def batches(self) -> Iterator[Batch]:
        """Encode all questions in their order."""
        return map(self.encoded, chunks(range(len(self)), AT_ONCE))

    def pairs_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of pairs of the questions from `first` to `last`."""
        return self._starts[first], self._starts[last]

    def apart(self) -> Lists:
        """Split the lists, so that each pair is a list of its own."""
        single = [
            replace(row, passages=(p,), has_answer=(has,), llm_prefer=(prefer,), reader_scores=())
            for row in self.rows
            for p, has, prefer in zip(row.passages, row.has_answer, row.llm_prefer, strict=True)
        ]
        return Lists(single, self._tokenizer)


@dataclass(frozen=True, slots=True)
class Data:
    """Questions for training, for learning w (empty if it is fixed), and held out."""

    train: Lists
    weighed: Lists
    held: Lists

    @classmethod
    def of(
        cls,
        rows: Sequence[Labelled],
        held: Sequence[Labelled],
        plan: BilabelPlan,
        tokenizer: PairTokenizer,
    ) -> Data:
        """Split the rows; the questions for learning w are taken from the training questions.

        Raises `InputError` naming questions in both parts.

        Args:
            rows: Labeled rows.
            held: Rows to hold out; a fraction of `rows` if empty.
            plan: Training settings.
            tokenizer: Tokenizer of pairs.
        """
        train, held = (list(rows), list(held)) if held else split(rows, plan.share, plan.seed)
        refuse_shared(train, held)
        train, weighed = (
            split(train, plan.share, plan.seed) if plan.imbalance.learns else (train, [])
        )
        fitted = Lists(train, tokenizer)
        apart = fitted if plan.batch is None else fitted.apart()
        return cls(apart, Lists(weighed, tokenizer), Lists(held, tokenizer))


LISTWISE = 0.3


def losses(
    logits: Tensor,
    labels: Tensor,
    sizes: Sequence[int],
    *,
    grouped: bool = False,
    listwise: float = LISTWISE,
) -> dict[str, Tensor]:
    """Return cross-entropy per pair, and the listwise loss unless its weight is 0.

    Args:
        logits: Logits, grouped by question. Shape: (pairs, 2).
        labels: Labels; a NaN counts for neither loss. Shape: (pairs, 2).
        sizes: Number of pairs of each question.
        grouped: Split the first loss by whether a pair's labels match.
        listwise: Weight of the listwise loss.
    """
    labels = labels.to(logits.device)
    rank = {"rank": listwise * list_loss(logits, labels, sizes)} if listwise else {}
    if grouped:
        return group_losses(logits, labels) | rank
    # masked, not chosen: how many are known is a question that waits for the device
    known = ~labels.isnan()
    each = F.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    return {"point": (each * known).sum() / known.sum().clamp(min=1)} | rank


class BiLabelModule(nn.Module):
    """Trunk and bi-label head, with their losses over questions with labeled passages.

    Pairs pass through the trunk sorted by length, in batches of at most `batch_tokens` padded
    tokens, or of 16 pairs if it is None. Losses are computed over whole questions.
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

        With a weigher, the pointwise loss is returned by group, not yet weighted.
        """
        pooled, features = self.inputs(batch.pairs)
        grouped, listwise = self.weigher is not None, self.listwise
        with full_precision(pooled.device):
            logits = self.head(pooled, features)
            return losses(logits, batch.labels, batch.sizes, grouped=grouped, listwise=listwise)

    def inputs(self, encoded: Sequence[EncodedPair]) -> tuple[Tensor, Tensor]:
        """Return the head's inputs for each pair. Shapes: (pairs, width), (pairs, features)."""
        pooled = trunk_passes(
            self.trunk,
            encoded,
            lambda batch, states, mask: self.trunk.pool(states, mask),
            pad_id=self.tokenizer.pad_id,
            batch_tokens=self.batch_tokens,
        )
        return torch.stack(pooled), self.evidence.features(encoded).to(device_of(self.trunk))


@dataclass(frozen=True)
class HeldPairs:
    """Pairs held out from fitting the head, used to learn the weight of the others.

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
    """Fit the head alone on vectors computed once, for a frozen encoder.

    Args:
        head: Head to fit, changed in place.
        pooled: Vectors of the pairs. Shape: (pairs, width).
        features: Features of the pairs. Shape: (pairs, features).
        labels: Labels, NaN where unknown. Shape: (pairs, 2).
        sizes: Number of pairs of each question, in order.
        epochs: Passes over the questions.
        rate: Peak learning rate.
        weight_decay: Weight decay.
        lists: Questions per step.
        seed: Random seed.
        weigher: Weights of matched and mismatched pairs; learned on `held`.
        held: Pairs that w is learned on.
        momentum: Momentum of SGD; None for AdamW.
        listwise: Weight of the listwise loss.

    Returns:
        Losses of each step, with w and the losses of both groups if there is a weigher.
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
