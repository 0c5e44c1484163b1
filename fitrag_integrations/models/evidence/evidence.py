"""The numbers a bi-label head sees beside the encoder's vector: lexical, late, and clues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair
from fitrag_integrations.models.evidence import clues, late, lexical
from fitrag_integrations.models.evidence.clues import Clues
from fitrag_integrations.models.evidence.late import LateInteraction
from fitrag_integrations.models.evidence.lexical import Rarity


@dataclass(frozen=True)
class Evidence:
    """Measure pairs. `rarity` None: nothing lexical; `interaction` None: nothing late.

    With `clues` the lexical numbers come with those about the title.
    """

    rarity: Rarity | None = None
    interaction: LateInteraction | None = None
    clues: Clues | None = None

    @property
    def count(self) -> int:
        """Count the features of a pair."""
        lexicals = lexical.COUNT if self.rarity is not None else 0
        words = clues.COUNT if self.clues is not None else lexicals
        return words + (late.COUNT if self.interaction is not None else 0)

    def features(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Return all features. Shape: (pairs, count)."""
        parts = []
        if self.clues is not None:
            parts.append(self.clues.features(pairs))
        elif self.rarity is not None:
            words = lexical.lexical_features(Batch.of(pairs), self.rarity)
            parts.append(torch.from_numpy(words).float())
        if self.interaction is not None:
            parts.append(torch.tensor(self.interaction.features(pairs)))
        return torch.cat(parts, dim=1) if parts else torch.zeros(len(pairs), 0)
