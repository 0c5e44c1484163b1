"""The training loop that learns the weight of matched pairs as it goes (FIT-RAG, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fitrag_integrations.training.bilabel.imbalance import Weigher, draw_pairs
from fitrag_integrations.training.bilabel.lists import Batch as PairBatch
from fitrag_integrations.training.bilabel.lists import Lists
from fitrag_integrations.training.loop.loop import Batch, Loop, Seen
from fitrag_integrations.training.loop.optimizers import trainable


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighingLoop(Loop[Batch]):
    """Weigh the losses of matched and mismatched pairs by a weigher, which learns after each step.

    The module gives `matched` and `mismatched` among its losses and holds the weigher, so that w is
    kept in the checkpoint. `held(step)` gives held-out pairs, half of them mismatched, or None. The
    log has w, and the losses as they are before they are weighted. The slope of w is taken on the
    gradients of all batches of a step, of every process; each judges w on the same held-out pairs.
    """

    weigher: Weigher
    held: Callable[[int], Batch | None]

    def _backward(self, losses: dict[str, Tensor]) -> Seen:
        shown: Seen = {name: value.detach() for name, value in losses.items()}
        share = 1 / self.settings.accumulate
        weighted = self.weigher.weigh(losses, trainable(self.module), share=share)
        (torch.stack(list(weighted.values())).sum() * share).backward()
        return shown | {"w": self.weigher.w.item()}

    def _descend(self, optimizer: torch.optim.Optimizer, at: int) -> None:
        tuned = trainable(self.module)
        self.team.average_gradients(tuned)
        self.team.average(self.weigher.push)
        norm = float(nn.utils.clip_grad_norm_(tuned, self.settings.clip))
        optimizer.step()
        self.module.eval()  # w is judged without dropout
        batch = self.held(at) if self.weigher.plan.learns else None
        validation = None if batch is None else lambda: self._validation(batch)
        self.weigher.move(optimizer, validation, norm=norm, limit=self.settings.clip)
        self.team.share([self.weigher.w.data])
        optimizer.zero_grad()

    def _validation(self, batch: Batch) -> Tensor:
        losses = self._losses(batch)
        return losses["matched"] + losses["mismatched"]


def held_batches(given: Lists, pairs: int, *, seed: int) -> Callable[[int], PairBatch | None]:
    """Return a function from a step to held-out pairs, each a list of its own.

    At most `pairs` matched and as many mismatched ones; None where a group is empty.
    """
    single = given.apart()

    def batch(step: int) -> PairBatch | None:
        drawn = draw_pairs(single.labels, pairs, seed * 1_000_003 + step).tolist()
        return single.encoded(drawn) if drawn else None

    return batch
