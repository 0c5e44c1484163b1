"""The engine under the pair models: a trunk, its tokenizer, and the worker that owns both.

Models that name the same encoder folder share one engine, so a scorer and a reader over one trunk
cost its memory once and take turns on one worker.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoders import load_encoder
from fitrag_integrations.models.pairs import EncodedPair, Pair, PairTokenizer
from fitrag_integrations.models.trunk import Trunk, collate
from fitrag_integrations.models.worker import Worker, in_batches

T = TypeVar("T")
Forward = Callable[[Tensor, Tensor, list[EncodedPair]], Sequence[T]]
BATCH_TOKENS = {"cpu": 1024, "cuda": 65536}  # a CPU gains from little padding, a GPU from size
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Options:
    """Say where and how a model runs.

    `device` None is CUDA where it is there, else the CPU; `dtype` None is bfloat16 on a GPU that
    has it, else float32; `batch_tokens` is the padded size of one forward pass, None the device's
    default.
    """

    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None

    def resolved(self) -> tuple[torch.device, torch.dtype, int]:
        """Fill in what is None."""
        try:
            device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        except RuntimeError:
            allowed = "a torch device, such as cpu or cuda:0"
            raise InputError.of("device", given=self.device, allowed=allowed) from None
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InputError.of("dtype", given=self.dtype, allowed=", ".join(DTYPES))
        on_gpu = device.type == "cuda" and torch.cuda.is_bf16_supported()
        dtype = DTYPES[self.dtype or ("bfloat16" if on_gpu else "float32")]
        budget = self.batch_tokens
        if budget is None:
            budget = BATCH_TOKENS.get(device.type, 8192)
        if budget < 1:
            raise InputError.of("batch_tokens", given=budget, allowed="a whole number above 0")
        return device, dtype, budget


class Engine:
    """Run functions over token states, on the engine's own worker."""

    def __init__(self, trunk: Trunk, tokenizer: PairTokenizer, options: Options) -> None:
        self.device, self.dtype, self.budget = options.resolved()
        self.trunk = trunk.to(self.device, self.dtype).eval()
        self.tokenizer = tokenizer
        self.worker = Worker(type(trunk.encoder).__name__)
        self._users = 0

    def retain(self) -> Engine:
        """Count one more model that uses this engine."""
        self._users += 1
        return self

    def release(self) -> None:
        """Count one less; the last one stops the worker and gives the memory back."""
        self._users -= 1
        if self._users <= 0:
            self.worker.close()
            self.trunk = self.trunk.to("meta")
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    @torch.inference_mode()
    def run(self, pairs: Sequence[Pair], forward: Forward[T]) -> list[list[T]]:
        """Encode pairs and give, per pair, the result of each of its chunks. On the worker only.

        `forward(states, mask, chunks)` gets token states, float32, shape (batch, tokens, width),
        and the mask, and gives one result per chunk.
        """
        chunks = self.tokenizer.encode(pairs)
        results = iter(self.run_chunks([chunk for group in chunks for chunk in group], forward))
        return [[next(results) for _ in group] for group in chunks]

    @torch.inference_mode()
    def run_chunks(self, chunks: Sequence[EncodedPair], forward: Forward[T]) -> list[T]:
        """Do what `run` does for chunks that are encoded already."""

        def one_batch(batch: list[EncodedPair]) -> Sequence[T]:
            pad = self.tokenizer.pad_id
            ids, mask, types = collate(batch, pad_id=pad, device=self.device)
            return forward(self.trunk(ids, mask, types), mask, batch)

        return in_batches(chunks, one_batch, length=len, budget=self.budget)


_engines: weakref.WeakValueDictionary[tuple[str, Options], Engine] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def shared_engine(folder: Path, options: Options) -> Engine:
    """Load the engine of an encoder folder, or give the one that is already there."""
    key = (str(folder.resolve()), options)
    with _loading:
        engine = _engines.get(key)
        if engine is None or engine.worker.closed:
            trunk, tokenizer = load_encoder(folder)
            engine = _engines[key] = Engine(trunk, tokenizer, options)
        return engine.retain()
