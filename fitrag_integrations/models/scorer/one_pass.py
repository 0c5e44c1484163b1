"""Score sentences from the forward pass that scores their passages.

FIT-RAG's token reducer (section 4.4.2) has the scorer read every window of sentences as a text of
its own, which costs more than twice what reading the passages did. Here a small head judges each
window by what the scorer's pass over the whole passage knows of it. It was fitted to the scores
the windows get by themselves, and to where the answer is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ChecksumError
from fitrag_integrations.models.encoder.heads import Read
from fitrag_integrations.models.encoder.items import (
    Correction,
    InChunk,
    Item,
    Range,
    placed_spans,
)
from fitrag_integrations.models.encoder.pair_model import Engine, Forward
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, Pair
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.models.runtime.folder import (
    label_count,
    load_head,
    read_manifest,
    read_tensors,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.scorer.spans import (
    LineHead,
    SpanEvidence,
    SpanHead,
    span_evidence,
)
from fitrag_integrations.types import BiLabelScore

T = TypeVar("T")
Head: TypeAlias = SpanHead | LineHead
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


def run_spans(
    engine: Engine, items: Sequence[Item], measure: Callable[..., Sequence[T]]
) -> Steps[tuple[list[list[InChunk]], list[EncodedPair], list[T]]]:
    """Run an engine over items, with what is measured of the spans of each chunk.

    `measure(wanted, states, mask, batch)` gets the tokens of spans by the identity of their chunk.
    Returns the spans of each item's chunks, all chunks, and a result for each of these.
    """
    places, chunks, wanted = placed_spans(engine.tokenizer, items)
    forward: Forward[T] = partial(measure, wanted)
    return places, chunks, (yield from engine.run_chunks(chunks, forward))


class WholeScorer(Protocol):
    """Parts of a `BiLabelScorer` that reading spans needs."""

    _engine: Engine
    _evidence: Evidence
    _temperatures: tuple[float, float]
    _correction: Correction

    def _read(self, states: Tensor, mask: Tensor, batch: Batch) -> list[Read]: ...
    def _logits(self, read: list[Read], chunks: list[EncodedPair]) -> tuple[Tensor, Tensor]: ...
    def _labels(self, pair: Pair, chunks: Sequence[Sequence[float]]) -> BiLabelScore: ...


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
        places, chunks, found = yield from run_spans(engine, items, self._measured)
        pooled, logits = self._scorer._logits([read for read, _ in found], chunks)
        counts = torch.tensor([len(each) for group in places for _, each in group])
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


def load_span_head(folder: Path, manifest: Row, scorer: WholeScorer, sha256: str) -> Head:
    """Load the head in a folder; `sha256` is that of the head of the scorer beside it."""
    if sha256 != (expected := manifest["scorer_head"]):
        raise ChecksumError(
            f"{folder}: made for a scorer whose head has SHA-256 {expected}, found {sha256}; use "
            "the two folders as they were saved together"
        )
    entry, width = manifest["head"], scorer._engine.trunk.width
    hidden = check_whole("hidden", entry["hidden"], low=0)
    return load_head(
        lambda: SpanHead(width, hidden=hidden) if hidden else LineHead(width),
        folder / entry["file"],
        read_tensors(folder, entry),
    )


def save_onepass(folder: Path, head: Head, scorer: Path, fields: Row) -> None:
    """Save a head, and the way from its folder to the scorer's, with that one's checksum."""
    entry: dict[str, Any] = {**write_tensors(folder, "head.safetensors", head.state_dict())}
    entry["hidden"] = head.units.out_features if isinstance(head, SpanHead) else 0
    entry["labels"] = label_count(fields.get("head", {}))
    made_for = read_manifest(scorer, "model.json", kind="bilabel", needs=("head",))
    own = {
        "scorer": os.path.relpath(scorer, folder),
        "scorer_head": made_for["head"]["sha256"],
        "head": entry,
    }
    write_manifest(folder, "model.json", kind="onepass", fields={**fields, **own})
