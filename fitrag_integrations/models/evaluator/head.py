"""Retrieval evaluator of this package: any encoder, and a head that returns one grade.

CRAG (section 4.2) fine-tunes T5-large with one output. Here the output also sees how well an
answer's beginning and end can be found in the passage: two token scores, as a reader has them,
whose best sum is above 0 where the passage holds an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.models.encoder.heads import (
    Standardized,
    gathered,
    read_head,
)
from fitrag_integrations.models.encoder.items import FURTHEST, Lines
from fitrag_integrations.models.encoder.lexical import COUNT, Clues
from fitrag_integrations.models.encoder.pair_model import Engine, PairModel
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.models.encoder.sentences import cosines
from fitrag_integrations.models.kinds import PairGrader
from fitrag_integrations.models.runtime.batching import blockwise
from fitrag_integrations.models.runtime.folder import (
    load_head,
    positive,
)
from fitrag_integrations.models.runtime.worker import Steps


class EvaluatorHead(Standardized):
    """Head with one logit per pair: linear in the pooled pair, with a few units over the
    features.
    """

    def __init__(self, width: int, *, hidden: int = 16) -> None:
        super().__init__(COUNT)
        self.span = nn.Linear(width, 2)
        self.hidden = nn.Linear(COUNT + 1, hidden)
        self.mixed = nn.Linear(hidden, 1)
        self.out = nn.Linear(width, 1)

    def forward(self, pooled: Tensor, clues: Tensor, span: Tensor) -> Tensor:
        """Return logits. Shapes: (batch, width), (batch, clues), (batch,); gives (batch,)."""
        found = span.clamp(-FURTHEST, FURTHEST).unsqueeze(-1) / 5
        units = torch.tanh(self.hidden(torch.cat([self.alike(clues), found], dim=-1)))
        logits: Tensor = self.out(pooled) + self.mixed(units)
        return logits.squeeze(-1)


class HeadGrader(PairGrader, PairModel):
    """Grader of pairs in [-1, 1] with an encoder and a head; `RetrievalEvaluator` owns it.

    A passage longer than the encoder's input takes its best chunk's grade.
    """

    kind = "evaluator"

    def __init__(
        self,
        engine: Engine,
        head: EvaluatorHead,
        *,
        clues: Clues,
        manifest: Row | None = None,
    ) -> None:
        super().__init__(engine, manifest=manifest)
        self._head = head.float().eval()
        self._head.span.to(engine.device)  # run on all states of a batch, which stay where they are
        self._clues = clues
        self._temperature = positive(self.manifest, "temperature")
        self._lines = Lines.of(self.manifest)

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: Row) -> HeadGrader:
        entry = manifest["head"]
        tensors, rarity = read_head(folder, entry, engine.tokenizer.vocabulary)
        width, hidden = engine.trunk.width, check_whole("hidden", entry["hidden"], low=1)
        head = load_head(
            lambda: EvaluatorHead(width, hidden=hidden), folder / entry["file"], tensors
        )
        return cls(
            engine,
            head,
            clues=Clues.of(engine.tokenizer, rarity if rarity is not None else ()),
            manifest=manifest,
        )

    @blockwise
    @torch.inference_mode()
    def _grades(self, pairs: Sequence[Pair]) -> Steps[list[float]]:
        groups = self._engine.tokenizer.encode(pairs)
        chunks = [chunk for group in groups for chunk in group]
        read = yield from self._engine.run_chunks(chunks, self._states)
        pooled, span = gathered(read, chunks)
        logits = self._head(pooled, self._clues.features(chunks), span)
        self._engine.check_finite(logits.isfinite().all())
        rows = iter(logits.tolist())
        best = [max(next(rows) for _ in group) / self._temperature for group in groups]
        near = yield from cosines(self._engine, self._lines, [(*pair, ()) for pair in pairs])
        return self._lines.grades(pairs, best, near)
