"""What a frozen base shows of a question and a draft: the input of IK's head variant.

The states are those of the drafting prompt itself, so they are the ones the base passes through
while it drafts: no second prompt is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from fitrag_integrations.models.causal.decoding import token_facts
from fitrag_integrations.models.causal.language_model import CausalEngine, Ids, left_padded
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import FACTS, SINGLE

WEIGHT = 48  # ordinary features that all states together weigh as much as


class KnownHead(nn.Module):
    """Turn features into one logit: linear, or with one hidden layer.

    Features are put to mean 0 and deviation 1 by what `standardize` saw.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int, *, hidden: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.inner = nn.Linear(features, hidden) if hidden else None
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden or features, 1)

    def standardize(self, features: Tensor, *, states: int = 0) -> None:
        """Learn mean and deviation of each feature. Shape: (rows, features).

        The first `states` of them, thousands in a large model, are made smaller together, lest
        what they say by chance drown the few others.
        """
        self.mean.copy_(features.mean(0))
        self.scale.copy_(features.std(0, correction=0).clamp(min=1e-3))
        self.scale[:states] *= max(1.0, (states / WEIGHT) ** 0.5)

    def forward(self, features: Tensor) -> Tensor:
        """Return a logit of knowing for each row. Shape: (rows,)."""
        values = self.dropout((features - self.mean) / self.scale)
        if self.inner is not None:
            values = self.inner(values).relu()
        return cast(Tensor, self.out(values).squeeze(-1))


def feature_count(engine: CausalEngine, layers: Sequence[int]) -> int:
    """Count the features: two vectors a layer, and the facts."""
    return 2 * len(layers) * int(engine.model.config.hidden_size) + FACTS


def default_layers(engine: CausalEngine) -> list[int]:
    """Choose the middle and the last layer."""
    last = int(engine.model.config.num_hidden_layers)
    return sorted({(last + 1) // 2, last})


def features(
    engine: CausalEngine, pairs: Sequence[tuple[Ids, Ids]], layers: Sequence[int]
) -> Steps[Tensor]:
    """Measure (prompt ids, draft ids) pairs, drafts maybe empty. On the worker only.

    Shape: (pairs, features), float32, on the CPU. Per layer the state of the last position and the
    mean over the draft's, then how sure the base was of the draft.
    """

    def one_batch(batch: list[tuple[Ids, Ids]]) -> list[Tensor]:
        keep = max(len(draft) for _, draft in batch) + 1
        engine.use(None)
        out = engine.inferred([[*p, *d] for p, d in batch], keep=keep, hidden=True)
        states = [out.hidden_states[layer].float() for layer in layers]
        drafts = [draft or [0] for _, draft in batch]
        ids, _, _ = left_padded(drafts, pad_id=0, device=out.logits.device)  # one copy for all
        found = [
            torch.cat([_states(states, at, count), _facts(out.logits[at], ids[at], count)])
            for at, count in enumerate(len(draft) for _, draft in batch)
        ]
        return list(torch.stack(found).cpu())

    return torch.stack(
        (
            yield from engine.batched(
                pairs, one_batch, length=lambda pair: len(pair[0]) + len(pair[1])
            )
        )
    )


def _states(states: Sequence[Tensor], at: int, count: int) -> Tensor:
    parts: list[Tensor] = []
    for layer in states:
        row = layer[at]
        parts += [row[-1], row[-count:].mean(0) if count else torch.zeros_like(row[-1])]
    return torch.cat(parts)


def _facts(logits: Tensor, ids: Tensor, count: int) -> Tensor:
    """Return how sure the base was, from the position before the draft's `count` ids on."""
    first = token_facts(logits[-count - 1 : -count or None], ids[-1:])[0, 1:]
    if not count:
        return torch.cat([first, first.new_zeros(FACTS - 2)])
    measured = token_facts(logits[-count - 1 : -1], ids[-count:])
    worst = torch.stack([measured[:, 0].min(), measured[:, 1].min(), measured[:, 2].max()])
    # what the whole draft is worth: a long one has more places to go wrong, which a mean forgets
    sums = torch.log1p(torch.stack([-measured[:, 0].sum(), measured[:, 2].sum()]))
    single = measured.new_zeros(SINGLE, 3)
    single[:, 1] = 1.0  # a token that is not there is sure
    single[:count] = measured[:SINGLE]
    return torch.cat([first, measured.mean(0), worst, sums, first.new_ones(1), single.flatten()])
