"""The engine under the pair models: a trunk and its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from fitrag_integrations.models.encoder.encoders import load_encoder
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, Pair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk, mask_of
from fitrag_integrations.models.runtime.batching import in_blocks
from fitrag_integrations.models.runtime.engine import Options, Pool, SharedEngine
from fitrag_integrations.models.runtime.placing import sent
from fitrag_integrations.models.runtime.worker import Steps

T = TypeVar("T")
Forward = Callable[[Tensor, Tensor, Batch], Sequence[T]]


class Engine(SharedEngine):
    """Run functions over token states, on the engine's own worker."""

    def __init__(self, trunk: Trunk, tokenizer: PairTokenizer, options: Options) -> None:
        super().__init__(trunk, options, name=type(trunk.encoder).__name__)
        self.trunk = trunk
        self.tokenizer = tokenizer

    def run(self, pairs: Sequence[Pair], forward: Forward[T]) -> Steps[list[list[T]]]:
        """Encode pairs and give, per pair, the result of each of its chunks. On the worker only.

        `forward(states, mask, batch)` gets token states, float32, shape (batch, tokens, width),
        and the mask, and gives one result per chunk of the batch.
        """

        def one_block(some: Sequence[Pair]) -> Steps[list[list[T]]]:
            groups = self.tokenizer.encode(some)
            flat = [chunk for group in groups for chunk in group]
            results = iter((yield from self.run_chunks(flat, forward)))
            return [[next(results) for _ in group] for group in groups]

        return in_blocks(pairs, one_block)

    @torch.inference_mode()
    def run_chunks(self, chunks: Sequence[EncodedPair], forward: Forward[T]) -> Steps[list[T]]:
        """Run chunks that are encoded already; return a result for each. On the worker only."""
        each = {id(chunk): chunk for chunk in chunks}

        def one_batch(some: list[EncodedPair]) -> Sequence[T]:
            batch = Batch.of(some, pad_id=self.tokenizer.pad_id)
            ids, types = sent(torch.from_numpy(batch.tokens[:2]), self.device).long()
            lengths = sent(torch.from_numpy(batch.lengths), self.device)
            mask = mask_of(lengths, ids.shape[1])
            return forward(self.compute(ids, mask, types), mask, batch)

        found = yield from self.batched(list(each.values()), one_batch, length=len)
        results = dict(zip(each, found, strict=True))
        return [results[id(chunk)] for chunk in chunks]


_engines: Pool[Engine] = Pool()


def shared_engine(folder: Path, options: Options) -> Engine:
    """Load the engine of an encoder folder, or give the one that is already there."""
    return _engines.take(
        str(folder.resolve()), options, lambda: Engine(*load_encoder(folder, options), options)
    )
