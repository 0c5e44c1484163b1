"""Score passages and their sentences in one forward pass.

FIT-RAG's token reducer (section 4.4.2) has the scorer read every window of sentences as a text of
its own, which costs more than twice what reading the passages did. Here a small head judges each
window by what the scorer's pass over the whole passage knows of it. It was fitted to the scores
the windows get by themselves, and to where the answer is.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TypeAlias

import torch

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ChecksumError
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.models.runtime.batching import in_blocks
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.folder import (
    both_positive,
    load_head,
    read_manifest,
    read_tensors,
    reading,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.manifest import label_count
from fitrag_integrations.models.runtime.saved import SavedModel, remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps, Worker
from fitrag_integrations.models.scorer.bilabel import BiLabelScorer, _sigmoid
from fitrag_integrations.models.scorer.items import Item, best_logits, checked_items
from fitrag_integrations.models.scorer.span_head import LineHead, SpanHead
from fitrag_integrations.models.scorer.span_reading import SpanReader
from fitrag_integrations.types import BiLabelScore

Judged: TypeAlias = tuple[BiLabelScore, list[BiLabelScore]]


class OnePassScorer(SavedModel):
    """Score pairs as the scorer it stands on does, and spans of the passages at no further pass.

    Load one with `from_pretrained(folder)` or `embedded()`, make one with `fitrag train onepass`.
    Calls are queued to the scorer's own worker. In a passage longer than the encoder's input a
    span is judged in the chunk that holds the most of it, the best of several. A head whose
    manifest has `"labels": 1`, as the bundled one's, judges spans by `has_answer` alone: their
    `llm_prefer` is None, and `weight` does not change their order. Code that trains builds one
    from a `scorer`, its `head`, and the `manifest` to be saved with it.
    """

    kind = "onepass"

    def __init__(
        self, scorer: BiLabelScorer, head: SpanHead | LineHead, *, manifest: Row | None = None
    ) -> None:
        super().__init__(manifest)
        self._scorer = scorer
        self._head = head.float().eval()
        answers = copy.deepcopy(self._head.answers).to(scorer._engine.device)
        self._reader = SpanReader(scorer, answers)
        self._temperatures = both_positive(self.manifest)
        self._labels = label_count(self.manifest.get("head", {}))

    @property
    def name(self) -> str:
        """Name the scorer, for what is fitted on its scores."""
        return self._scorer.name

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Give the two labels of each pair, in the order given: the scorer's own."""
        self._check_loaded()
        return self._scorer.score(pairs)

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Do what `score` does without blocking the event loop."""
        self._check_loaded()
        return await self._scorer.ascore(pairs)

    def score_sentences(self, items: Sequence[Item]) -> list[Judged]:
        """Return the labels of each passage and of spans of it, in the order given.

        Args:
            items: Tuples of a question, a passage and its spans, [start, end) in the text.

        Returns:
            For each item the labels that `score` gives for the passage, and those of its spans.

        Raises:
            InputError: If an item is no such tuple, or a span is empty or outside the text.
        """
        return self._call(self._judge, checked_items(items))

    async def ascore_sentences(self, items: Sequence[Item]) -> list[Judged]:
        """Do what `score_sentences` does without blocking the event loop."""
        return await self._acall(self._judge, checked_items(items))

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        device: str | None = None,
        dtype: str | None = None,
        batch_tokens: int | None = None,
        backend: str | None = None,
    ) -> Self:
        """Load `name_or_dir`, a folder of `save_pretrained` or `fitrag train onepass`, or by name.

        The scorer it names is loaded with it; options are those of
        `BiLabelScorer.from_pretrained`. Raises `ModelLoadError` for a missing or damaged file, and
        `ChecksumError` for a changed one or where the scorer is not the one it was made for.
        """
        folder, options = (
            model_folder(name_or_dir),
            Options.checked(device, dtype, batch_tokens, backend),
        )
        needs = ("scorer", "scorer_head", "head")
        manifest = read_manifest(folder, "model.json", kind=cls.kind, needs=needs)
        with reading(folder), ExitStack() as undo:
            scorer = BiLabelScorer.from_pretrained(folder / manifest["scorer"], **asdict(options))
            undo.callback(scorer.unload)
            _check_made_for(scorer, folder, manifest["scorer_head"])
            entry, width = manifest["head"], scorer._engine.trunk.width
            hidden = check_whole("hidden", entry["hidden"], low=0)
            tensors = read_tensors(folder, entry)
            head: SpanHead | LineHead = load_head(
                lambda: SpanHead(width, hidden=hidden) if hidden else LineHead(width),
                folder / entry["file"],
                tensors,
            )
            made = cls(scorer, head, manifest=manifest)
            undo.pop_all()
        return made

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the head, and the scorer beside it, to a folder that `from_pretrained` reads."""
        folder = Path(folder)
        self._scorer.save_pretrained(folder / "scorer")
        save_onepass(folder, self._head, folder / "scorer", self.manifest)

    def _own_worker(self) -> Worker:
        return self._scorer._worker()

    def _release(self) -> None:
        self._scorer.unload()

    def _judge(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        return in_blocks(items, self._block)

    @torch.inference_mode()
    def _block(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        read = yield from self._reader.read(items)
        logits = self._head(read.evidence, read.pooled, read.wholes)
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

    def _details(self) -> list[str]:
        return [repr(self._scorer)]


def save_onepass(folder: Path, head: SpanHead | LineHead, scorer: Path, fields: Row) -> None:
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


def _check_made_for(scorer: BiLabelScorer, folder: Path, sha256: str) -> None:
    found = scorer.manifest["head"]["sha256"]
    if found != sha256:
        raise ChecksumError(
            f"{folder}: made for a scorer whose head has SHA-256 {sha256}, found {found}; train it "
            "again with `fitrag train onepass`"
        )


def _labels(has: float, prefer: float | None = None) -> BiLabelScore:
    return BiLabelScore(_sigmoid(has), None if prefer is None else _sigmoid(prefer), has, prefer)
