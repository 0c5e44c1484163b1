"""The bi-label scorer in training (FIT-RAG 4.2): its data as tensors, its losses, its module.

Cross-entropy on both labels of each pair is the paper's loss. A listwise loss over each question's
passages is added, because the scores rank them. The first may be weighted (section 4.2.2,
`imbalance`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from fitrag_integrations.core.progress import chunks
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.late import LateInteraction
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.training.encoder import trunk_passes
from fitrag_integrations.training.losses import list_loss
from fitrag_integrations.training.losses.imbalance import Weigher, group_losses
from fitrag_integrations.training.rows import Labelled
from fitrag_integrations.training.trainer import ModuleTrainer, device_of, full_precision

AT_ONCE = 8  # questions whose pairs are encoded together where nothing is learnt from them


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded pairs of some questions with their labels.

    Args:
        pairs: Encoded pairs; empty if `inputs` are given.
        labels: Labels has_answer and llm_prefer; NaN where unknown. Shape: (pairs, 2).
        sizes: Number of pairs of each question.
        inputs: Inputs of the head, if they were computed before.
    """

    pairs: list[EncodedPair]
    labels: Tensor
    sizes: list[int]
    inputs: tuple[Tensor, Tensor] | None = None


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
        self._inputs: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Return the length of each question's longest passage, in characters."""
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
        if self._inputs is None:
            return Batch(self._tokenizer.encode_cut(pairs), torch.cat(labels), sizes)
        places = torch.cat([torch.arange(*self.pairs_of(i, i + 1)) for i in chosen])
        pooled, features = (part[places] for part in self._inputs)
        return Batch([], torch.cat(labels), sizes, (pooled, features))

    def compute_once(self, module: BiLabelModule) -> None:
        """Store the head's inputs of all pairs, for an encoder that does not train."""
        with torch.inference_mode():
            parts = [module.inputs(batch.pairs) for batch in self.batches()]
        pooled, features = (
            torch.cat([each.float().cpu() for each in part]).clone()
            for part in zip(*parts, strict=True)
        )
        self._inputs = pooled, features

    def batches(self) -> Iterator[Batch]:
        """Encode all questions in their order."""
        return map(self.encoded, chunks(range(len(self)), AT_ONCE))

    def pairs_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of pairs of some questions.

        Args:
            first: Index of the first question.
            last: Index after the last question.
        """
        return self._starts[first], self._starts[last]

    def apart(self) -> Lists:
        """Split the lists into lists of a single pair each."""
        single = [
            replace(row, passages=(p,), has_answer=(has,), llm_prefer=(prefer,), reader_scores=())
            for row in self.rows
            for p, has, prefer in zip(row.passages, row.has_answer, row.llm_prefer, strict=True)
        ]
        apart = Lists(single, self._tokenizer)
        apart._inputs = self._inputs
        return apart


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
    parts = group_losses(logits, labels)
    point = parts if grouped else {"point": torch.stack(list(parts.values())).sum()}
    return point | ({"rank": listwise * list_loss(logits, labels, sizes)} if listwise else {})


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
        clues: LateInteraction | None = None,
        weigher: Weigher | None = None,
        batch_tokens: int | None = None,
        listwise: float = LISTWISE,
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.weigher = trunk, head, weigher
        self.tokenizer, self.clues = tokenizer, clues
        self.batch_tokens, self.listwise = batch_tokens, listwise

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the pointwise and the listwise loss, each the mean over both labels.

        With a weigher, the pointwise loss is returned by group, not yet weighted.
        """
        logits, grouped = self.logits(batch), self.weigher is not None
        with full_precision(logits.device):
            return losses(
                logits, batch.labels, batch.sizes, grouped=grouped, listwise=self.listwise
            )

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of each pair. Shape: (pairs, 2)."""
        pooled, features = self.inputs(batch.pairs) if batch.inputs is None else batch.inputs
        device = device_of(self)
        with full_precision(device):
            found: Tensor = self.head(pooled.to(device), features.to(device))
        return found

    def inputs(self, encoded: Sequence[EncodedPair]) -> tuple[Tensor, Tensor]:
        """Return the head's inputs for each pair. Shapes: (pairs, width), (pairs, features)."""
        pooled = trunk_passes(
            self.trunk,
            encoded,
            lambda batch, states, mask: self.trunk.pool(states, mask),
            pad_id=self.tokenizer.pad_id,
            batch_tokens=self.batch_tokens,
        )
        none = torch.zeros(len(encoded), 0)
        features = none if self.clues is None else self.clues.features(encoded)
        return torch.stack(pooled), features.to(device_of(self.trunk))


class WeighingTrainer(ModuleTrainer):
    """Trainer that weighs the losses of matched and mismatched pairs, and learns the weight w.

    After each step on the parameters, w moves down the gradient of the held-out loss (FIT-RAG,
    Algorithm 2). That gradient uses all batches of a step in every process; all processes use the
    same held-out pairs. The log has w and the unweighted losses.

    Args:
        module: Module with a `weigher`, `matched` and `mismatched` among its losses.
        *given: Arguments of `ModuleTrainer`.
        held: Function from a step to held-out pairs, half of them mismatched, or None.
    """

    def __init__(
        self, module: BiLabelModule, *given: Any, held: Callable[[int], Batch | None]
    ) -> None:
        super().__init__(module, *given)
        assert module.weigher is not None
        self.weigher, self._held, self._norm = module.weigher, held, 0.0
        outer = self

        class Moving(TrainerCallback):
            def on_optimizer_step(self, *given: Any, **named: Any) -> None:
                outer._move()

        self.add_callback(Moving())

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> Tensor:
        """Add a batch's gradients, and their derivatives with respect to w."""
        model.train()
        share = 1 / self.current_gradient_accumulation_steps
        with self.compute_loss_context_manager():
            parts = self.losses(model, inputs["batch"])
        self._parts["w"].append(self.weigher.w.clone())
        tuned = [p for p in self.module.parameters() if p.requires_grad]
        weighted = self.weigher.weigh(parts, tuned, share=share)
        loss = torch.stack(list(weighted.values())).sum() * share
        self.accelerator.backward(loss)
        return loss.detach()

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        norm = super()._clip_grad_norm(model)  # type: ignore[no-untyped-call]
        self._norm = float(norm)
        return norm

    def _move(self) -> None:
        """Move w, while the parameters still hold the gradients of the step just taken."""
        weigher = self.weigher
        wrapped: Any = self.optimizer
        if weigher.push:
            weigher.push = self.accelerator.reduce(weigher.push, reduction="mean")
        self.module.eval()  # w is judged without dropout
        batch = self._held(self.state.global_step) if weigher.plan.learns else None

        def validation() -> Tensor:
            with self.compute_loss_context_manager():
                losses: dict[str, Tensor] = self.module(batch)
            return losses["matched"] + losses["mismatched"]

        judged = None if batch is None else validation
        weigher.move(wrapped.optimizer, judged, norm=self._norm, limit=self.args.max_grad_norm)
