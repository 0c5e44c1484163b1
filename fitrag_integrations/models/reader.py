"""Extractive reader: the answer as a span of the passage, with a confidence.

It replaces the language model if there is none, and is the teacher of the bundled scorer's
`llm_prefer`. The head is DPR's (Karpukhin et al., 2020, section 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.models.encoder.heads import (
    ReaderHead,
    best_spans,
    read_head,
)
from fitrag_integrations.models.encoder.items import FURTHEST
from fitrag_integrations.models.encoder.lexical import COUNT, Clues
from fitrag_integrations.models.encoder.pair_model import Engine, PairModel
from fitrag_integrations.models.encoder.pairs import Batch, Pair
from fitrag_integrations.models.kinds import Answer, Found, PairReader, answer_of, found_in
from fitrag_integrations.models.runtime.folder import load_head
from fitrag_integrations.models.runtime.worker import Steps


class ExtractiveReader(PairReader, PairModel):
    """Reader that finds the answer to a question in a passage.

    Load one with `from_pretrained(folder)` or `embedded()`, train one with `fitrag train reader`.
    Calls from any thread or event loop are queued to one worker, batched by tokens, and answered in
    order. Answers that score below `abstain_below` are unreliable; it is None if no threshold was
    fitted.

    Args:
        engine: Encoder and tokenizer.
        head: Scores of answer spans and of passages.
        manifest: Fields saved with the model.
        clues: Lexical features, for a head that was trained with them.

    Example:
        >>> reader = ExtractiveReader.embedded()
        >>> reader.read([("Who wrote it?", Passage("1", "Ann wrote it."))])[0].text
    """

    kind = "reader"

    def __init__(
        self, engine: Engine, head: ReaderHead, *, manifest: Row, clues: Clues | None = None
    ) -> None:
        super().__init__(engine, manifest=manifest)
        self._clues = clues
        self._head = head.to(engine.device).float().eval()
        units = 0 if head.units is None else head.units.out_features
        self.manifest = {**manifest, "head": {**manifest.get("head", {}), "units": units}}
        below = manifest.get("thresholds", {}).get("abstain_below")
        self.abstain_below = None if below is None else check_number("abstain_below", below)

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: Row) -> ExtractiveReader:
        entry, width = manifest["head"], engine.trunk.width
        tensors, rarity = read_head(folder, entry, engine.tokenizer.vocabulary)
        clues = None if rarity is None else Clues.of(engine.tokenizer, rarity)
        units = check_whole("units", entry.get("units", 0), low=0)
        head = load_head(
            lambda: ReaderHead(width, features=COUNT + 1, units=units),
            folder / entry["file"],
            tensors,
        )
        return cls(engine, head, manifest=manifest, clues=clues)

    def _read(self, pairs: Sequence[Pair]) -> Steps[list[Answer]]:
        found = yield from self._engine.run(pairs, self._spans)
        return [answer_of(pair[1], chunks) for pair, chunks in zip(pairs, found, strict=True)]

    def _spans(self, states: Tensor, mask: Tensor, batch: Batch) -> list[Found]:
        span, select = self._head(states, self._engine.trunk.pool(states, mask))
        allowed = torch.from_numpy(batch.placed)
        best, first, last = best_spans(span.float(), allowed.to(span.device))
        if self._clues is not None:
            clues = self._clues.features(batch.pairs).to(span.device)
            found = best.clamp(-FURTHEST, FURTHEST).unsqueeze(-1)
            select = select + self._head.extra_logits(torch.cat([clues, found], dim=1))
        columns = torch.stack([select.float(), first.float(), last.float()], dim=1).tolist()
        self._engine.check_finite(all(math.isfinite(row[0]) for row in columns))
        return [
            found_in(chunk, select, int(first), int(last))
            for chunk, (select, first, last) in zip(batch.pairs, columns, strict=True)
        ]
