"""Late interaction: what the untouched encoder makes of question and passage, each read alone.

Its token states were trained to bring like meanings together on a billion pairs; tuning for the
pair task forgets part of that. Three numbers bring it back: the cosine of the two mean vectors, and
how well the question's tokens find a like token in the passage (MaxSim; Khattab and Zaharia, 2020),
plain and weighted by rarity.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.models.encoder.lexical import LEXICAL_COUNT, lexical_features
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, Rarity
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime.batching import Room, in_batches
from fitrag_integrations.models.runtime.placing import attending, padded
from fitrag_integrations.models.runtime.worker import finished

LATE_COUNT = LEXICAL_COUNT + 3
Ids = tuple[int, ...]


class LateInteraction:
    """Measure pairs by their words, and in the space of a frozen encoder. Not thread-safe."""

    def __init__(self, trunk: Trunk, rarity: Rarity, *, pad_id: int, budget: int = 1024) -> None:
        self.trunk, self.rarity = trunk.eval(), rarity
        self._pad_id, self._budget = pad_id, Room(budget)

    @torch.no_grad()
    def features(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Return the lexical features, then cosine, MaxSim and weighed MaxSim, in [-1, 1].

        Both matches are 0 where one side has no token. Shape: (pairs, 8).
        """
        words = torch.from_numpy(lexical_features(Batch.of(pairs), self.rarity)).float()
        texts = [_apart(pair) for pair in pairs]
        distinct = list(dict.fromkeys(ids for _, *both in texts for ids in both))
        states = finished(in_batches(distinct, self._states, length=len, budget=self._budget))
        known = dict(zip(distinct, states, strict=True))
        compared = [_compare(known[q], known[p], first) for first, q, p in texts]
        read = torch.cat(compared).cpu().split([*map(len, compared)]) if compared else ()
        rarity, late = torch.as_tensor(self.rarity, dtype=torch.float32), torch.empty(len(pairs), 3)
        for row, (first, question, _), numbers in zip(late, texts, read, strict=True):
            near, weights = numbers[1:], rarity[list(question[first:-1])]
            row[0], row[1] = numbers[0], near.sum() / max(len(near), 1)
            row[2] = (near * weights).sum() / weights.sum().clamp(min=1e-6)
        return torch.cat([words, late], dim=1)

    def _states(self, batch: list[Ids]) -> list[Tensor]:
        device = next(self.trunk.parameters()).device
        ids, mask = padded(batch, self._pad_id, device)
        with attending(device):
            states = self.trunk(ids, mask, torch.zeros_like(ids))
        return [rows[: len(b)].clone() for rows, b in zip(states, batch, strict=True)]


def _compare(question: Tensor, passage: Tensor, first: int) -> Tensor:
    """Return the cosine, then how near each of the question's tokens has a like one, on the device.

    Shape: (1 + question's tokens,).
    """
    cosine = F.cosine_similarity(question.mean(0), passage.mean(0), dim=0).unsqueeze(0)
    inner, outer = (F.normalize(x[first:-1], dim=-1) for x in (question, passage))
    near = (inner @ outer.T).max(1).values if len(outer) else inner.new_zeros(len(inner))
    return torch.cat([cosine, near])


def _apart(pair: EncodedPair) -> tuple[int, Ids, Ids]:
    """Return how many tokens stand before the question (T5 has none), then both sides of a pair.

    Each side has the pair's first tokens and its last one around its own.
    """
    ids, segments = pair.tokens[0], pair.tokens[2]
    first = int(segments[0] == 0)
    own = (np.concatenate([ids[:first], ids[segments == side], ids[-1:]]) for side in (1, 2))
    question, passage = (tuple(side.tolist()) for side in own)
    return first, question, passage
