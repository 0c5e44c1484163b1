"""Run a scorer over whole passages and keep what its states say about spans of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

from fitrag_integrations.models.encoder.engine import Engine
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair
from fitrag_integrations.models.evaluator.head import Read
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.scorer.items import InChunk, Item, Range, chunk_spans
from fitrag_integrations.models.scorer.spans import SpanEvidence, span_evidence
from fitrag_integrations.types import BiLabelScore

Ranges: TypeAlias = dict[int, list[Range]]  # by the chunk's identity


@dataclass(frozen=True, slots=True)
class Reading:
    """Output of one forward pass.

    `places[i][j]` are the spans of item i that are judged in its chunk j, with their tokens;
    `logits` the scorer's own of all chunks, shape (chunks, 2). The rest has a row per span of each
    chunk: `evidence`, `pooled`, the chunk's vector, and `wholes`, its calibrated logits, shape
    (spans, 2).
    """

    places: list[list[InChunk]]
    logits: Tensor
    evidence: SpanEvidence
    pooled: Tensor
    wholes: Tensor


class WholeScorer(Protocol):
    """Parts of a `BiLabelScorer` that reading spans needs."""

    _engine: Engine
    _evidence: Evidence
    _temperatures: tuple[float, float]

    def _read(self, states: Tensor, mask: Tensor, batch: Batch) -> list[Read]: ...
    def _logits(self, read: list[Read], chunks: list[EncodedPair]) -> tuple[Tensor, Tensor]: ...
    def _labels(self, chunks: Sequence[Sequence[float]]) -> BiLabelScore: ...


class SpanReader:
    """Read items with a scorer; `answers` gives the two token scores of a reader."""

    def __init__(self, scorer: WholeScorer, answers: nn.Linear) -> None:
        self._scorer, self._answers = scorer, answers
        rarity = scorer._evidence.rarity
        device = scorer._engine.device
        self._rarity = (
            None if rarity is None else torch.as_tensor(rarity, dtype=torch.float32, device=device)
        )

    @torch.inference_mode()
    def read(self, items: Sequence[Item]) -> Steps[Reading]:
        """Read all items in the batches `score` would read them in. On the scorer's worker only."""
        engine = self._scorer._engine
        groups = engine.tokenizer.encode([(question, passage) for question, passage, _ in items])
        places = [
            chunk_spans(group, spans) for group, (_, _, spans) in zip(groups, items, strict=True)
        ]
        # equal passages may have other spans: each is read for its own
        chunks = [EncodedPair(chunk.tokens) for group in groups for chunk in group]
        flat = [each for group in places for _, each in group]
        wanted = {id(chunk): each for chunk, each in zip(chunks, flat, strict=True)}
        found = yield from engine.run_chunks(chunks, partial(self._measured, wanted))
        pooled, logits = self._scorer._logits([read for read, _ in found], chunks)
        counts = torch.tensor([len(each) for each in flat])
        wholes = logits / torch.tensor(self._scorer._temperatures)
        rows, width = torch.cat([rows for _, rows in found]).cpu(), engine.trunk.width
        return Reading(
            places,
            logits,
            SpanEvidence(rows[:, :width], rows[:, width:]),
            pooled.repeat_interleave(counts, dim=0),
            wholes.repeat_interleave(counts, dim=0),
        )

    def _measured(
        self, wanted: Ranges, states: Tensor, mask: Tensor, batch: Batch
    ) -> list[tuple[Read, Tensor]]:
        ranges = [wanted[id(chunk)] for chunk in batch.pairs]
        found = span_evidence(states, self._answers(states), batch, ranges, self._rarity)
        rows = torch.cat([found.means, found.numbers], dim=1).split(list(map(len, ranges)))
        return list(zip(self._scorer._read(states, mask, batch), rows, strict=True))
