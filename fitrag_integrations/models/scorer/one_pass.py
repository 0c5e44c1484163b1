"""Score sentences from the forward pass that scores their passages.

FIT-RAG's token reducer (section 4.4.2) has the scorer read every window of sentences as a text of
its own, which costs more than twice what reading the passages did. Here a small head judges each
window by what the scorer's pass over the whole passage knows of it. It was fitted to the scores
the windows get by themselves, and to where the answer is.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ChecksumError
from fitrag_integrations.models.runtime.batching import in_blocks
from fitrag_integrations.models.runtime.folder import (
    both_positive,
    label_count,
    load_head,
    read_manifest,
    read_tensors,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.scorer.items import Item, best_logits
from fitrag_integrations.models.scorer.reranker import sigmoid
from fitrag_integrations.models.scorer.span_head import LineHead, SpanHead
from fitrag_integrations.models.scorer.span_reading import SpanReader, WholeScorer
from fitrag_integrations.types import BiLabelScore

Judged: TypeAlias = tuple[BiLabelScore, list[BiLabelScore]]
Head: TypeAlias = SpanHead | LineHead


class SpanJudge:
    """Judge of spans by the states that a scorer's own pass leaves. On the scorer's worker only."""

    def __init__(self, scorer: WholeScorer, head: Head, manifest: Row) -> None:
        self._scorer = scorer
        self.head = head.float().eval()
        answers = copy.deepcopy(self.head.answers).to(scorer._engine.device)
        self._reader = SpanReader(scorer, answers)
        self._temperatures = both_positive(manifest)
        self._labels = label_count(manifest.get("head", {}))

    def judge(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        """Return the labels of each passage and of its spans."""
        return in_blocks(items, self._block)

    @torch.inference_mode()
    def _block(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        read = yield from self._reader.read(items)
        logits = self.head(read.evidence, read.pooled, read.wholes)
        sizes = [len(ranges) for group in read.places for _, ranges in group]
        rows, firsts = iter(logits.split(sizes)), iter(read.logits.tolist())
        judged = []
        for group, (*_, spans) in zip(read.places, items, strict=True):
            parts = [(which, next(rows).numpy()) for which, _ in group]
            best = torch.from_numpy(best_logits(len(spans), parts))
            labels = (best / torch.tensor(self._temperatures))[:, : self._labels].tolist()
            whole = self._scorer._labels([next(firsts) for _ in group])
            judged.append((whole, [_labels(*row) for row in labels]))
        return judged


def load_span_head(folder: Path, manifest: Row, scorer: WholeScorer, sha256: str) -> Head:
    """Load the head in a folder; `sha256` is that of the head of the scorer beside it."""
    if sha256 != (expected := manifest["scorer_head"]):
        raise ChecksumError(
            f"{folder}: made for a scorer whose head has SHA-256 {expected}, found {sha256}; train "
            "it again with `fitrag train onepass`"
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


def _labels(has: float, prefer: float | None = None) -> BiLabelScore:
    return BiLabelScore(sigmoid(has), None if prefer is None else sigmoid(prefer), has, prefer)
