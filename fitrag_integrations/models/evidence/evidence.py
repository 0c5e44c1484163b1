"""The features that a bi-label head has beside the encoder's vector: lexical, late and titles.

Late interaction compares what the untouched encoder makes of question and passage, each read alone.
Its token states were trained to bring like meanings together on a billion pairs; tuning for the
pair task forgets part of that. Three numbers bring it back: the cosine of the two mean vectors,
and how well the question's tokens find a like token in the passage (MaxSim; Khattab and Zaharia,
2020), plain and weighted by rarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, Rarity
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.evidence.lexical import (
    COUNT,
    LEXICAL_COUNT,
    Clues,
    lexical_features,
)
from fitrag_integrations.models.runtime.batching import Budget, in_batches
from fitrag_integrations.models.runtime.placing import attending, padded
from fitrag_integrations.models.runtime.worker import finished

LATE_COUNT = 3
Ids = tuple[int, ...]


class LateInteraction:
    """Comparison of question and passage in the space of a frozen encoder. Not thread-safe."""

    def __init__(self, trunk: Trunk, rarity: Rarity, *, pad_id: int, budget: int = 1024) -> None:
        self.trunk = trunk.eval()
        self._rarity = torch.as_tensor(rarity, dtype=torch.float32)
        self._pad_id, self._budget = pad_id, Budget(budget)

    @torch.inference_mode()
    def features(self, pairs: Sequence[EncodedPair]) -> list[list[float]]:
        """Return cosine, MaxSim and weighed MaxSim of each pair. Shape: (pairs, 3), in [-1, 1]."""
        texts = [(_part(pair, 1), _part(pair, 2), _framed(pair)) for pair in pairs]
        distinct = list(dict.fromkeys(ids for *both, _ in texts for ids in both))
        batches = in_batches(distinct, self._states, length=len, budget=self._budget)
        known = dict(zip(distinct, finished(batches), strict=True))
        compared = [_compare(known[q], known[p], first) for q, p, first in texts]
        sizes = [len(numbers) for numbers in compared]
        read = torch.cat(compared).cpu().split(sizes) if compared else ()
        return [
            self._weighed(q, one, first) for (q, _, first), one in zip(texts, read, strict=True)
        ]

    def _states(self, batch: list[Ids]) -> list[Tensor]:
        device = next(self.trunk.parameters()).device
        ids, mask = padded(batch, self._pad_id, device)
        with attending(device):
            states = self.trunk(ids, mask, torch.zeros_like(ids))
        return [rows[: len(b)].clone() for rows, b in zip(states, batch, strict=True)]

    def _weighed(self, ids: Ids, numbers: Tensor, first: int) -> list[float]:
        """Make the three numbers of what `_compare` gave, on the CPU."""
        cosine, best = float(numbers[0]), numbers[1:]
        if not len(best):
            return [cosine, 0.0, 0.0]
        weights = self._rarity[list(ids[first:-1])]
        weighed = (best * weights).sum() / weights.sum().clamp(min=1e-6)
        return [cosine, float(best.mean()), float(weighed)]


def _compare(question: Tensor, passage: Tensor, first: int) -> Tensor:
    """Return the cosine, then how near each of the question's tokens has a like one; on the
    device.

    Nothing follows the cosine where one side has no token. Shape: (1 + question's tokens,).
    """
    cosine = F.cosine_similarity(question.mean(0), passage.mean(0), dim=0).unsqueeze(0)
    inner, outer = (F.normalize(x[first:-1], dim=-1) for x in (question, passage))
    if not len(inner) or not len(outer):
        return cosine
    return torch.cat([cosine, (inner @ outer.T).max(1).values])


def _part(pair: EncodedPair, segment: int) -> Ids:
    """Return one side of a pair, between its first and last token."""
    inside = (i for i, s in zip(pair.ids, pair.segments, strict=True) if s == segment)
    return (*pair.ids[: _framed(pair)], *inside, pair.ids[-1])


def _framed(pair: EncodedPair) -> int:
    """Count the tokens before the question: one, or none in T5."""
    return int(pair.segments[0] == 0)


@dataclass(frozen=True)
class Evidence:
    """Features of pairs. `rarity` None leaves out lexical, `interaction` None late features.

    With `clues` the lexical numbers come with those about the title.
    """

    rarity: Rarity | None = None
    interaction: LateInteraction | None = None
    clues: Clues | None = None

    @property
    def count(self) -> int:
        """The number of features of a pair."""
        lexicals = LEXICAL_COUNT if self.rarity is not None else 0
        words = COUNT if self.clues is not None else lexicals
        return words + (LATE_COUNT if self.interaction is not None else 0)

    def features(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Return all features. Shape: (pairs, count)."""
        parts = []
        if self.clues is not None:
            parts.append(self.clues.features(pairs))
        elif self.rarity is not None:
            words = lexical_features(Batch.of(pairs), self.rarity)
            parts.append(torch.from_numpy(words).float())
        if self.interaction is not None:
            parts.append(torch.tensor(self.interaction.features(pairs)))
        return torch.cat(parts, dim=1) if parts else torch.zeros(len(pairs), 0)
