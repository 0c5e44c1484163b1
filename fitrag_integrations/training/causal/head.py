"""Fit IK's head on states of the frozen base, which are measured once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.causal.states import (
    FACTS,
    KnownHead,
    default_layers,
    feature_count,
    features,
)
from fitrag_integrations.models.gate.gate import cut_drafts
from fitrag_integrations.models.gate.ik import head_rows
from fitrag_integrations.models.runtime.folder import write_tensors
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.training.causal.adapter import run_loop
from fitrag_integrations.training.causal.rows import KnownRow
from fitrag_integrations.training.loop.loop import LoopSettings, epochs


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """Settings for training a head; by default on the middle and the last layer."""

    epochs: float = 40.0
    batch: int = 16
    rate: float = 1e-3
    hidden: int = 0
    layers: tuple[int, ...] = ()
    dropout: float = 0.05
    weight_decay: float = 0.1
    seed: int = 13


class HeadModule(nn.Module):
    """A head and its loss on features measured once, since the base stays as it is."""

    def __init__(self, head: KnownHead, measured: Tensor, labels: Tensor) -> None:
        super().__init__()
        self.head, self._measured, self._labels = head, measured, labels

    def forward(self, batch: Sequence[int]) -> dict[str, Tensor]:
        """Return cross-entropy of the rows numbered."""
        chosen = torch.tensor(batch)
        logits = self.head(self._measured[chosen])
        return {"known": F.binary_cross_entropy_with_logits(logits, self._labels[chosen])}


def fit_head(
    engine: CausalEngine,
    train: Sequence[KnownRow],
    held: Sequence[KnownRow],
    lengths: tuple[Sequence[int], Sequence[int]],
    prompt: str,
    out: Path,
    plan: HeadPlan,
) -> tuple[KnownHead, dict[str, object]]:
    """Train a head and save it; gives it with the manifest's entry.

    `lengths` are the draft lengths to train on, and those that are held out.
    """
    layers = list(plan.layers) or default_layers(engine)
    torch.manual_seed(plan.seed)
    head = KnownHead(feature_count(engine, layers), hidden=plan.hidden, dropout=plan.dropout)
    measured, labels = _measured(engine, train, lengths[0], prompt, layers)
    head.standardize(measured, states=measured.shape[1] - FACTS)
    kept = HeadModule(head, *_measured(engine, held, lengths[1], prompt, layers))
    steps = max(1, round(plan.epochs * len(labels) / plan.batch))
    run_loop(
        HeadModule(head, measured, labels),
        epochs([1] * len(labels), plan.batch, seed=plan.seed),
        lambda: float(kept(range(len(held) * len(lengths[1])))["known"]),
        out / "run",
        LoopSettings(steps, plan.rate, weight_decay=plan.weight_decay, seed=plan.seed),
    )
    entry = write_tensors(out, "head.safetensors", head.state_dict())
    return head, {**entry, "layers": layers, "hidden": plan.hidden}


def _measured(
    engine: CausalEngine,
    rows: Sequence[KnownRow],
    lengths: Sequence[int],
    prompt: str,
    layers: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Measure each row at each draft length. Shapes: (rows, features), (rows,)."""
    pairs = [(row.question, row.draft) for row in rows]
    cut = [pair for length in lengths for pair in cut_drafts(engine, pairs, length)]
    labels = torch.tensor([float(row.known) for _ in lengths for row in rows])
    measured = finished(features(engine, head_rows(engine, cut, prompt), layers))
    return measured.clone(), labels
