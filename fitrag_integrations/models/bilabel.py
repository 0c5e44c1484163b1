"""FIT-RAG's bi-label scorer (section 4.2): does a passage hold the answer, and does it help the LLM?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fitrag_integrations.models.encoders import save_encoder
from fitrag_integrations.models.engine import Engine
from fitrag_integrations.models.folder import read_tensors, write_manifest, write_tensors
from fitrag_integrations.models.heads import BiLabelHead
from fitrag_integrations.models.lexical import COUNT, lexical_features
from fitrag_integrations.models.pair_model import PairModel
from fitrag_integrations.models.pairs import EncodedPair, Pair
from fitrag_integrations.types import BiLabelScore

Logits = tuple[float, float]


class BiLabelScorer(PairModel[BiLabelScore]):
    """Score (question, passage) pairs with the two labels of FIT-RAG.

    Load one with `from_pretrained(folder)` or `embedded()`, make one with `fitrag train bilabel`.
    Calls from any thread or event loop are queued to one worker, batched by tokens, and answered in
    order. A passage longer than the encoder's input is scored in overlapping chunks and takes the
    best chunk's labels.
    """

    kind = "bilabel"

    def __init__(
        self,
        engine: Engine,
        head: BiLabelHead,
        *,
        rarity: Tensor | None = None,
        temperatures: tuple[float, float] = (1.0, 1.0),
        manifest: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(engine, manifest=manifest)
        self._head = head.to(engine.device).float().eval()
        self._rarity = None if rarity is None else rarity.float().tolist()
        self._temperatures = temperatures

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Give the two labels of each pair, in the order given.

        Probabilities in [0, 1], calibrated where the scorer was. Raises `InputError` naming the
        first pair that is not a question and a passage with text.
        """
        return self._call(self._score, pairs)

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Do what `score` does without blocking the event loop."""
        return await self._acall(self._score, pairs)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save head, calibration and encoder to a folder that `from_pretrained` reads."""
        folder = Path(folder)
        tensors = {f"head.{n}": p for n, p in self._head.state_dict().items()}
        if self._rarity is not None:
            tensors["rarity"] = torch.tensor(self._rarity, dtype=torch.float16)
        fields = {**self.manifest, "encoder": "encoder"}
        fields["head"] = self.manifest["head"] | write_tensors(folder, "head.safetensors", tensors)
        fields["temperatures"] = list(self._temperatures)
        write_manifest(folder, "model.json", kind=self.kind, fields=fields)
        self._save_encoder(folder / "encoder")

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: dict[str, Any]) -> BiLabelScorer:
        entry = manifest["head"]
        tensors = read_tensors(folder, entry)
        rarity = tensors.pop("rarity", None)
        head = BiLabelHead(
            engine.trunk.width, features=COUNT if rarity is not None else 0, hidden=entry["hidden"]
        )
        head.load_state_dict({n.removeprefix("head."): t.float() for n, t in tensors.items()})
        first, second = manifest.get("temperatures", (1.0, 1.0))
        return cls(
            engine, head, rarity=rarity, temperatures=(first, second), manifest=manifest
        )

    def _score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        return [self._labels(chunks) for chunks in self._engine.run(pairs, self._logits)]

    def _logits(self, states: Tensor, mask: Tensor, chunks: list[EncodedPair]) -> list[Logits]:
        pooled = self._engine.trunk.pool(states, mask)
        features = lexical_features(chunks, self._rarity) if self._rarity else [[]] * len(chunks)
        extra = torch.tensor(features, device=pooled.device).reshape(len(chunks), -1)
        return [(a, b) for a, b in self._head(pooled, extra).tolist()]

    def _labels(self, chunks: Sequence[Logits]) -> BiLabelScore:
        has, prefer = (
            max(logits[i] for logits in chunks) / self._temperatures[i] for i in (0, 1)
        )
        return BiLabelScore(_sigmoid(has), _sigmoid(prefer), has, prefer)


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


__all__ = ["BiLabelScorer", "save_encoder"]
