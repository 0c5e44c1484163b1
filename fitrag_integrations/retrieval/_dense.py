"""A loaded encoder: tokenizer, weights and recipe. Not thread-safe: one worker owns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from fitrag_integrations.errors import FitRagError, InputError, ModelLoadError
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime.batching import in_batches
from fitrag_integrations.models.runtime.engine import Options, SharedEngine
from fitrag_integrations.models.runtime.loading import position_limit
from fitrag_integrations.models.runtime.placing import sent
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.retrieval._recipe import Recipe, recipe_of


class Dense:
    """Turn texts into vectors."""

    def __init__(
        self, tokenizer: Any, trunk: Trunk, recipe: Recipe, options: Options, *, name: str
    ) -> None:
        self._tokenizer = tokenizer
        self._trunk = trunk
        self.recipe = recipe
        self._engine = SharedEngine(trunk.requires_grad_(False), options, name=name)
        self._pad_id: int = tokenizer.pad_token_id or 0

    @property
    def width(self) -> int:
        """Count the numbers of a vector."""
        return self._trunk.width

    def encode(self, texts: Sequence[str]) -> Steps[list[NDArray[np.float32]]]:
        """Return one vector per text, of shape (width,), in order."""
        encoded = self._tokenizer(
            [_encodable(text) for text in texts],
            truncation=True,
            max_length=self.recipe.max_tokens,
            return_attention_mask=False,
            verbose=False,
        )["input_ids"]
        # a text the tokenizer finds nothing in still needs a token to be averaged over
        filled = [ids or [self._pad_id] for ids in encoded]
        return in_batches(filled, self._vectors, length=len, budget=self._engine.room)

    @torch.inference_mode()
    def _vectors(self, batch: list[list[int]]) -> list[NDArray[np.float32]]:
        rows = [torch.tensor(ids) for ids in batch]
        ids = pad_sequence(rows, batch_first=True, padding_value=self._pad_id)
        marks = [torch.ones_like(row) for row in rows]
        mask = sent(pad_sequence(marks, batch_first=True), self._engine.device)
        ids = sent(ids, mask.device)
        vectors = self._trunk.pool(self._engine.compute(ids, mask, torch.zeros_like(ids)), mask)
        if self.recipe.normalize:
            vectors = torch.nn.functional.normalize(vectors)
        return list(vectors.cpu().numpy())


def load(name: str, options: dict[str, Any], given: dict[str, Any]) -> Dense:
    """Load an encoder onto a device; raises `ModelLoadError` naming it.

    `options` are those of `Options`, `given` what of the recipe is not left to the checkpoint.
    """
    try:
        chosen = Options(**options)
        device, dtype, _ = chosen.resolved()
    except RuntimeError as error:
        allowed = "a torch device, such as 'cpu' or 'cuda:0'"
        raise InputError.of("device", given=options["device"], allowed=allowed) from error
    if device.type == "cpu" and dtype == torch.float16:
        raise InputError.of("dtype", given="float16", allowed="float32 or bfloat16 on a CPU")
    try:
        trunk, tokenizer = load_base(name)
        recipe = recipe_of(name, weights_source(name), **given)
        trunk.pooling = recipe.pooling
    except FitRagError:
        raise
    except Exception as error:
        raise ModelLoadError(f"encoder {name!r} could not be loaded: {error}") from error
    cut = Recipe(recipe.pooling, recipe.normalize, _length(recipe.max_tokens, tokenizer, trunk))
    return Dense(tokenizer, trunk, cut, chosen, name=f"encoder {name!r}")


def _length(wanted: int, tokenizer: Any, trunk: Trunk) -> int:
    config: Any = trunk.encoder.config
    return int(min(wanted, tokenizer.model_max_length, position_limit(config) or wanted))


def _encodable(text: str) -> str:
    """Replace lone surrogates, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
