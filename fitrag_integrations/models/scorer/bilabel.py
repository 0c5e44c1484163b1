"""FIT-RAG's bi-label scorer (section 4.2): is the answer in a passage, and does it help the LLM?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ChecksumError, raise_if
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import (
    BiLabelHead,
    gathered,
    read_head,
)
from fitrag_integrations.models.encoder.heads import (
    Read as ChunkRead,
)
from fitrag_integrations.models.encoder.items import (
    CALIBRATED,
    FURTHEST,
    Correction,
    Lines,
)
from fitrag_integrations.models.encoder.late import LATE_COUNT, LateInteraction
from fitrag_integrations.models.encoder.lexical import COUNT, Clues
from fitrag_integrations.models.encoder.pair_model import Engine, PairModel
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair
from fitrag_integrations.models.encoder.sentences import NUMBERS, Read
from fitrag_integrations.models.kinds import ChunkScorer, ChunkSentenceScorer
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.folder import (
    both_positive,
    kind_in,
    load_head,
    read_manifest,
    read_tensors,
    reading,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.placing import place
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.sources import scorer_name
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.scorer.pruner import Pruner
from fitrag_integrations.models.scorer.reranker import ReadyReranker


class BiLabelScorer(ChunkScorer, PairModel):
    """Scorer of (question, passage) pairs with the two labels of FIT-RAG.

    Load one with `from_pretrained(folder)` or `embedded()`, train one with `fitrag train bilabel`.
    `embedded()`, like a folder with a head over sentences, returns a `OnePassScorer`. Calls from
    any thread or event loop are queued to one worker, batched by tokens, and answered in order. A
    passage longer than the encoder's input is scored in overlapping chunks and takes the best
    chunk's labels.

    Args:
        engine: Encoder and tokenizer.
        head: Head with the two labels.
        clues: Further features that the head reads, if any.
        temperatures: Divisors of the logits of both labels.
        lines: Corrections of the logits by the kind of text and the untouched base's cosine.
        manifest: Fields saved with the scorer.

    Example:
        >>> scorer = BiLabelScorer.embedded()
        >>> scorer.score([("which river?", Passage("1", "Its river is the Tiber."))])
    """

    kind = "bilabel"
    ships_as = "onepass"

    def __init__(
        self,
        engine: Engine,
        head: BiLabelHead,
        *,
        clues: Clues | LateInteraction | None = None,
        temperatures: tuple[float, float] = (1.0, 1.0),
        lines: Lines | None = None,
        manifest: Row | None = None,
    ) -> None:
        super().__init__(engine, manifest=manifest)
        self._head = head.float().eval()
        if self._head.span is not None:  # run on all states of a batch, which stay where they are
            self._head.span.to(engine.device)
        self._clues = clues
        self._temperatures, self._lines = temperatures, lines or Lines()
        self._correction = Correction()

    @property
    def name(self) -> str:
        """The scorer's name, from its base and weights, which fitted thresholds are checked
        against.

        Empty if its manifest names no weights.
        """
        return self._correction.name(scorer_name(self.manifest))

    from_reranker = staticmethod(ReadyReranker.from_pretrained)

    @classmethod
    def _load(cls, folder: Path, options: Options) -> Self:
        if cls is BiLabelScorer and kind_in(folder) == OnePassScorer.kind:
            return cast(Self, OnePassScorer._load(folder, options))
        if cls is BiLabelScorer and kind_in(folder) == CALIBRATED:
            given = Correction.read(folder)
            home = (
                folder / given.source if given.source != "embedded" else embedded_folder("onepass")
            )
            made = BiLabelScorer._load(home, options)
            if given.model != made.name:
                made.unload()
            given.check(made.name)
            for one in (made, getattr(made, "_scorer", made)):  # of passages, and of sentences
                one._correction = given
            return cast(Self, made)
        return super()._load(folder, options)

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: Row) -> Self:
        entry = manifest["head"]
        tensors, rarity = read_head(folder, entry, engine.tokenizer.vocabulary)
        clues: Clues | LateInteraction | None = None
        count = 0
        if rarity is not None and entry.get("late"):  # the untouched base, beside the tuned encoder
            base = place(load_base(manifest["base"])[0], engine.device, engine.dtype)
            pad_id, budget = engine.tokenizer.pad_id, engine.room.tokens
            clues, count = LateInteraction(base, rarity, pad_id=pad_id, budget=budget), LATE_COUNT
        elif rarity is not None:
            clues, count = Clues.of(engine.tokenizer, rarity), COUNT
        spans = bool(entry.get("spans"))
        sizes = {
            "features": count + spans,
            "hidden": check_whole("hidden", entry["hidden"], low=0),
            "units": check_whole("units", entry.get("units", 0), low=0),
        }
        width, path = engine.trunk.width, folder / entry["file"]
        head = load_head(lambda: BiLabelHead(width, **sizes, spans=spans), path, tensors)
        return cls(
            engine,
            head,
            clues=clues,
            temperatures=both_positive(manifest),
            lines=Lines.of(manifest),
            manifest=manifest,
        )

    @torch.inference_mode()
    def _labelled(self, chunks: Sequence[EncodedPair]) -> Steps[list[Read]]:
        read = yield from self._engine.run_chunks(chunks, self._states)
        nothing = np.zeros((0, 3), np.float32)
        return [Read(own, nothing) for own in self._logits(read, chunks).numpy()]

    def _logits(self, read: list[ChunkRead], chunks: Sequence[EncodedPair]) -> Tensor:
        """Run the head on what `_states` gave. Shape: (chunks, 2)."""
        pooled, best = gathered(read, chunks)
        parts = [] if self._clues is None else [self._clues.features(chunks)]
        if self._head.span is not None:
            parts.append(best.clamp(max=FURTHEST).unsqueeze(1))
        features = torch.cat(parts, dim=1) if parts else pooled[:, :0]
        logits: Tensor = self._head(pooled, features)
        self._engine.check_finite(logits.isfinite().all())
        return logits


class OnePassScorer(ChunkSentenceScorer, BiLabelScorer):
    """Scorer that also scores sentences of the passages, in the same forward pass.

    A sentence is judged by `has_answer` alone: its `llm_prefer` is None.

    The bundled scorer is one; `from_pruner` loads a published one. In a passage longer than the
    encoder's input a span is scored in the chunk that contains most of it.

    Args:
        scorer: Scorer of whole passages; its engine and its labels are used.
        head: Head that judges spans.
        manifest: Fields saved with the scorer.

    Example:
        >>> scorer = BiLabelScorer.embedded()
        >>> passage = Passage("1", "Rome is old. Its river is the Tiber.")
        >>> scorer.score_sentences([("which river?", passage, [(0, 12), (13, 36)])])
    """

    kind = "onepass"

    def __init__(
        self, scorer: BiLabelScorer, head: SentenceHead, *, manifest: Row | None = None
    ) -> None:
        super().__init__(
            scorer._engine,
            scorer._head,
            clues=scorer._clues,
            temperatures=scorer._temperatures,
            lines=scorer._lines,
            manifest=manifest,
        )
        self._scorer = scorer
        self._sentences = head.float().eval()
        self._answers = copy.deepcopy(head.answers).to(scorer._engine.device)
        self._line = torch.cat([head.line.weight[0], head.line.bias]).detach().cpu().numpy()
        self._line[4:6] /= self._temperatures  # the labels in it are calibrated ones

    @property
    def name(self) -> str:
        """The name of the scorer of whole passages, which fitted thresholds are checked against."""
        return self._scorer.name

    from_pruner = staticmethod(Pruner.from_pretrained)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the head, and the scorer beside it, to a folder that `from_pretrained` reads."""
        folder = Path(folder)
        self._scorer.save_pretrained(folder / "scorer")
        head = write_tensors(folder, "head.safetensors", self._sentences.state_dict())
        made_for = read_manifest(folder / "scorer", "model.json", kind="bilabel", needs=("head",))
        own = {"scorer": "scorer", "scorer_head": made_for["head"]["sha256"], "head": head}
        write_manifest(folder, "model.json", kind=self.kind, fields={**self.manifest, **own})

    @classmethod
    def _load(cls, folder: Path, options: Options) -> Self:
        manifest = read_manifest(
            folder, "model.json", kind=cls.kind, needs=("scorer", "scorer_head", "head")
        )
        with reading(folder), ExitStack() as undo:
            scorer = BiLabelScorer._load(folder / manifest["scorer"], options)
            undo.callback(scorer.unload)
            found, entry = scorer.manifest["head"]["sha256"], manifest["head"]
            raise_if(
                found != manifest["scorer_head"],
                ChecksumError,
                f"{folder}: made for a scorer whose head has SHA-256 {manifest['scorer_head']}, "
                f"found {found}; use the scorer it was saved together with",
            )
            width, path = scorer._engine.trunk.width, folder / entry["file"]
            head = load_head(lambda: SentenceHead(width), path, read_tensors(folder, entry))
            made = cls(scorer, head, manifest=manifest)
            undo.pop_all()
        return made

    @torch.inference_mode()
    def _marked(self, chunks: Sequence[EncodedPair]) -> Steps[list[Read]]:
        def marked(states: Tensor, mask: Tensor, batch: Batch) -> list[tuple[ChunkRead, Tensor]]:
            rows = zip(self._answers(states), batch.lengths.tolist(), strict=True)
            own = [row[:size] for row, size in rows]
            return list(zip(self._states(states, mask, batch), own, strict=True))

        found = yield from self._engine.run_chunks(chunks, marked)
        logits = self._logits([read for read, _ in found], chunks).numpy()
        marks = torch.cat([own for _, own in found]).float().cpu().split([*map(len, chunks)])
        return [Read(own, each.numpy()) for own, each in zip(logits, marks, strict=True)]

    def _release(self) -> None:
        self._scorer.unload()


class SentenceHead(nn.Module):
    """Head over sentences: three scores of each token, and a line over a span's seven numbers.

    `sentence_numbers` measures them. The scores are how well an answer begins and ends at a token,
    and how far it is worth keeping.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.answers = nn.Linear(width, 3)
        self.line = nn.Linear(NUMBERS, 1)
