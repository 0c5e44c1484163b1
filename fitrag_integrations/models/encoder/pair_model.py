"""The scorer, the reader and the evaluator's head: a head over an engine, trunk and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Self, Unpack

import torch
from torch import Tensor

from fitrag_integrations.core.generic import T
from fitrag_integrations.core.record import Row
from fitrag_integrations.models.encoder.encoders import load_encoder, save_encoder
from fitrag_integrations.models.encoder.heads import Read, write_head
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, Pair, PairTokenizer
from fitrag_integrations.models.encoder.sentences import Floats, Nearness
from fitrag_integrations.models.encoder.trunk import Trunk, collate
from fitrag_integrations.models.runtime.batching import in_blocks, in_groups
from fitrag_integrations.models.runtime.engine import (
    EngineModel,
    Options,
    PairOptions,
    SharedEngine,
)
from fitrag_integrations.models.runtime.folder import (
    read_manifest,
    reading,
    without_similarity,
    write_manifest,
)
from fitrag_integrations.models.runtime.saved import Pool, embedded_folder, remembered
from fitrag_integrations.models.runtime.sources import model_folder
from fitrag_integrations.models.runtime.worker import Steps

Forward = Callable[[Tensor, Tensor, Batch], Sequence[T]]


class Engine(SharedEngine):
    """Run functions over token states, on the engine's own worker."""

    def __init__(self, trunk: Trunk, tokenizer: PairTokenizer, options: Options) -> None:
        super().__init__(trunk, options, name=type(trunk.encoder).__name__)
        self.trunk = trunk
        self.tokenizer = tokenizer
        self._options = options

    @cached_property
    def nearness(self) -> Nearness:
        """The cosines of the untouched base, which is loaded at the first call."""
        self._base = _engine_in(embedded_folder("base"), self._options)
        return Nearness(self.tokenizer, self._base.tokenizer.max_length, self._base.pooled)

    def pooled(
        self, chunks: Sequence[EncodedPair], weights: Sequence[Floats]
    ) -> Steps[list[Floats]]:
        """Return the product of each chunk's weights, (rows, tokens), and its states."""
        own = {id(chunk): rows for chunk, rows in zip(chunks, weights, strict=True)}

        def forward(states: Tensor, mask: Tensor, batch: Batch) -> list[Floats]:
            rows = [torch.from_numpy(own[id(chunk)]).to(states.device) for chunk in batch.pairs]
            made = [row @ each[: row.shape[1]] for row, each in zip(rows, states, strict=True)]
            return [part.numpy() for part in torch.cat(made).cpu().split([*map(len, rows)])]

        return self.run_chunks(chunks, forward)

    def release(self) -> None:
        """Count one model less; the last one leaves the base too."""
        super().release()
        if self._users <= 0 and "nearness" in vars(self):
            self._base.release()

    def run(self, pairs: Sequence[Pair], forward: Forward[T]) -> Steps[list[list[T]]]:
        """Encode pairs and give, per pair, the result of each of its chunks. On the worker only.

        `forward(states, mask, batch)` gets token states, float32, shape (batch, tokens, width),
        and the mask, and gives one result per chunk of the batch.
        """
        return in_blocks(
            pairs,
            lambda some: in_groups(
                self.tokenizer.encode(some), lambda flat: self.run_chunks(flat, forward)
            ),
        )

    @torch.inference_mode()
    def run_chunks(self, chunks: Sequence[EncodedPair], forward: Forward[T]) -> Steps[list[T]]:
        """Run chunks that are encoded already; return a result for each. On the worker only."""
        each = {id(chunk): chunk for chunk in chunks}

        def one_batch(some: list[EncodedPair]) -> Sequence[T]:
            batch = Batch.of(some, pad_id=self.tokenizer.pad_id)
            ids, mask, types = collate(batch, self.device)
            return forward(self.compute(ids, mask, types), mask, batch)

        found = yield from self.batched(list(each.values()), one_batch, length=len)
        results = dict(zip(each, found, strict=True))
        return [results[id(chunk)] for chunk in chunks]


_engines: Pool[Engine] = Pool()


def _engine_in(encoder: Path, options: Options) -> Engine:
    """Return the engine of an encoder's folder, which all models with these options share."""
    return _engines.take(
        str(encoder), options, lambda: Engine(*load_encoder(encoder, options), options)
    )


class PairModel(EngineModel[Engine]):
    """A head over an engine. Subclasses name their `kind` and build themselves from a folder."""

    _head: Any
    _clues: Any  # further features of the head, or None

    @classmethod
    @remembered
    def from_pretrained(cls, name_or_dir: str | Path, **options: Unpack[PairOptions]) -> Self:
        """Load a folder of `save_pretrained` or `fitrag train`, or a hub name.

        Args:
            name_or_dir: Folder or hub name.
            **options: `device`, by default CUDA if available, else the CPU; `dtype`, None or "auto"
                for bfloat16 where the GPU or processor multiplies it, else float32;
                `batch_tokens`, the padded size of one forward pass; `backend`, "torch" (default),
                "onnx" or "openvino" on the CPU; `max_length`, the maximum input length in
                tokens, by default the folder's; `similarity`, whether the cosine of the untouched
                base counts in a scorer or an evaluator that has weights for it; `model_kwargs`
                (such as `{"attn_implementation": "eager"}`) and `tokenizer_kwargs` for
                transformers.

        Raises:
            InputError: If an option is invalid.
            ModelLoadError: If a file is missing or damaged.
            ChecksumError: If a file was changed.

        Example:
            >>> scorer = BiLabelScorer.from_pretrained("my-scorer", dtype="float32")
        """
        return cls._load(model_folder(name_or_dir), Options.checked(**options))

    @classmethod
    def _load(cls, folder: Path, options: Options) -> Self:
        manifest = read_manifest(
            folder, "model.json", kind=cls.kind, needs=("base", "encoder", "head")
        )
        if not options.similarity:
            manifest = without_similarity(manifest)
        with reading(folder):
            encoder = (folder / manifest["encoder"]).resolve()
        engine = _engine_in(encoder, options)
        with reading(folder), ExitStack() as undo:
            undo.callback(engine.release)
            made = cls._build(engine, folder, manifest)
            undo.pop_all()
        return made

    def _states(self, states: Tensor, mask: Tensor, batch: Batch) -> list[Read]:
        """Keep for each chunk its vector and its tokens' scores, and none of the states."""
        vectors = self._engine.trunk.pool(states, mask).clone().unbind()
        span = self._head.span
        marked = [vector[:0].view(0, 2) for vector in vectors] if span is None else span(states)
        return list(zip(vectors, marked, strict=True))

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: Row) -> Self:
        raise NotImplementedError

    def save_pretrained(self, folder: str | Path) -> None:
        """Save head, calibration or thresholds, and encoder to a folder for `from_pretrained`.

        Args:
            folder: Folder to write.
        """
        rarity = None if self._clues is None else self._clues.rarity
        head = {**self.manifest.get("head", {}), **write_head(Path(folder), self._head, rarity)}
        fields = {**self.manifest, "encoder": "encoder", "head": head}
        write_manifest(Path(folder), "model.json", kind=self.kind, fields=fields)
        save_encoder(
            self._engine.trunk,
            Path(folder) / "encoder",
            base=self.manifest["base"],
            max_length=self._engine.tokenizer.max_length,
        )
