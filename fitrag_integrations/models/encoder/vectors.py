"""An encoder of single texts in torch, run as its checkpoint was trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import FitRagError, InputError, ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.recipe import (
    EncoderRecipe,
    file_of,
    read_json,
    recipe_of,
)
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime.engine import Options, SharedEngine
from fitrag_integrations.models.runtime.folder import load_head
from fitrag_integrations.models.runtime.loading import checked_length, position_limit
from fitrag_integrations.models.runtime.placing import padded, sent
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.models.runtime.worker import Steps

_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")


class DenseLayer(nn.Module):
    """Linear layer, activation and residual, as sentence-transformers' `Dense` module."""

    def __init__(self, config: Row) -> None:
        super().__init__()
        size = config["in_features"], config["out_features"]
        self.linear = nn.Linear(*size, bias=config.get("bias", True))
        given = str(config.get("activation_function", "torch.nn.Tanh"))
        name = given.rpartition(".")[2]
        refuse_if(
            not given.startswith("torch.nn.") or name not in _ACTIVATIONS,
            "activation_function",
            given,
            f"of torch.nn {', '.join(_ACTIVATIONS)}",
        )
        self.activation: nn.Module = getattr(nn, name)()
        self.residual: nn.Module | None = None
        if config.get("use_residual"):
            same = size[0] == size[1]
            self.residual = nn.Identity() if same else nn.Linear(*size, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return vectors of shape (batch, out_features)."""
        made: Tensor = self.activation(self.linear(vectors))
        return made if self.residual is None else made + self.residual(vectors)


class _Normalize(nn.Module):
    def forward(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors)


def _layer(kind: str, config: Row) -> nn.Module:
    return DenseLayer(config) if kind == "Dense" else nn.LayerNorm(config["dimension"])


def _layers(source: str, recipe: EncoderRecipe, width: int) -> tuple[nn.Sequential, int]:
    """Load the modules after pooling; return them and the number of dimensions they end with."""
    made: list[nn.Module] = []
    for kind, path in recipe.layers:
        if kind == "Normalize":
            made.append(_Normalize())
            continue
        what = f"encoder {source!r}: {path}"
        config = read_json(source, f"{path}/config.json") or {}
        weights = file_of(source, f"{path}/model.safetensors")
        if weights is None:
            raise ModelLoadError(
                f"{what}/model.safetensors is missing; weights in a pickle are not read: convert "
                "them with save_pretrained of sentence-transformers where you trust them"
            )
        for end in ("input", "output"):
            raise_if(
                (config.get(f"module_{end}_name") or "sentence_embedding") != "sentence_embedding",
                ModelLoadError,
                f"{what}: {kind} is over token embeddings; it must be over the sentence's",
            )
        try:
            tensors = {n.removeprefix("norm."): t for n, t in load_file(weights).items()}
            layer = load_head(partial(_layer, kind, config), weights, tensors)
        except (SafetensorError, RuntimeError, KeyError, TypeError, InputError) as error:
            raise ModelLoadError(f"{what} could not be loaded: {error}") from error
        raise_if(
            not all(bool(tensor.isfinite().all()) for tensor in tensors.values()),
            ModelLoadError,
            f"{what}/model.safetensors holds NaN or infinity; restore it",
        )
        given = config["in_features"] if kind == "Dense" else config["dimension"]
        raise_if(
            given != width,
            ModelLoadError,
            f"{what} takes {given} dimensions, the encoder has {width}",
        )
        width = config["out_features"] if kind == "Dense" else width
        made.append(layer)
    return nn.Sequential(*made).requires_grad_(False).eval(), width


class Dense:
    """A loaded encoder: tokenizer, weights and recipe. Not thread-safe: one worker owns it."""

    def __init__(
        self,
        tokenizer: Any,
        trunk: Trunk,
        recipe: EncoderRecipe,
        options: Options,
        *,
        name: str,
        source: str,
    ) -> None:
        self._tokenizer = tokenizer
        self._trunk = trunk
        self.recipe = recipe
        self._layers, width = _layers(source, recipe, trunk.width)
        refuse_if(
            recipe.truncate_dim is not None and recipe.truncate_dim > width,
            "truncate_dim",
            recipe.truncate_dim,
            f"at most {width}, the dimensions of {name}",
        )
        self.width = recipe.truncate_dim or width
        self._engine = SharedEngine(trunk.requires_grad_(False), options, name=name)
        self._layers.to(self._engine.device)
        self._pad_id: int = tokenizer.pad_token_id or 0

    def encode(self, items: Sequence[tuple[str, str]]) -> Steps[list[NDArray[np.float32]]]:
        """Return the vectors of (name of a prompt, text), in order. Shape of each: (width,)."""
        prompts = [self.recipe.prompt(name) for name, _ in items]
        texts = [f"{before}{text}" for before, (_, text) in zip(prompts, items, strict=True)]
        apart = {} if self.recipe.include_prompt else {p: self._left_out(p) for p in set(prompts)}
        # a text the tokenizer finds nothing in still needs a token to be averaged over
        filled = [
            (apart.get(prompt, 0), ids or [self._pad_id])
            for prompt, ids in zip(prompts, self._ids(texts), strict=True)
        ]
        return self._engine.batched(filled, self._vectors, length=lambda each: len(each[1]))

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = self._tokenizer(
            [text.encode("utf-8", "replace").decode("utf-8") for text in texts],  # no surrogates
            truncation=True,
            max_length=self.recipe.max_tokens,
            return_attention_mask=False,
            verbose=False,
        )["input_ids"]
        return found

    def _left_out(self, prompt: str) -> int:
        """Count the tokens of a prompt that is not pooled, with the one that opens the input."""
        (ids,) = self._ids([prompt]) if prompt else [list[int]()]
        ends = {self._tokenizer.sep_token_id, self._tokenizer.eos_token_id}
        return len(ids) - bool(ids and ids[-1] in ends)

    @torch.inference_mode()
    def _vectors(self, batch: list[tuple[int, list[int]]]) -> list[NDArray[np.float32]]:
        ids, mask = padded([row for _, row in batch], self._pad_id, self._engine.device)
        states = self._engine.compute(ids, mask, torch.zeros_like(ids))
        if any(skipped for skipped, _ in batch):
            first = sent(torch.tensor([skipped for skipped, _ in batch]), mask.device)
            mask = mask * (torch.arange(mask.shape[1], device=mask.device) >= first.unsqueeze(1))
        vectors = self._layers(self._trunk.pool(states, mask))[:, : self.width]
        if self.recipe.normalize:
            vectors = F.normalize(vectors)
        return list(vectors.cpu().numpy())


def load(name: str, options: dict[str, Any], given: dict[str, Any]) -> Dense:
    """Load an encoder onto a device.

    Args:
        name: Hub name or folder.
        options: Arguments of `Options.checked`.
        given: Fields of `EncoderRecipe` that do not come from the checkpoint.

    Raises:
        InputError: If an option is wrong.
        ModelLoadError: If the checkpoint cannot be used.
    """
    chosen = Options.checked(**options)
    device, dtype, _ = chosen.resolved()
    refuse_if(
        device.type == "cpu" and dtype == torch.float16,
        "dtype",
        "float16",
        "float32 or bfloat16 on a CPU",
    )
    try:
        source = weights_source(name)
        trunk, tokenizer = load_base(name, chosen)
        config: Any = trunk.encoder.config
        recipe = recipe_of(name, source, config, given)
        trunk.pooling = recipe.pooling
        if given.get("max_tokens") is None:
            most = tokenizer.model_max_length, position_limit(config) or recipe.max_tokens
            recipe = replace(recipe, max_tokens=int(min(recipe.max_tokens, *most)))
        else:
            checked_length(recipe.max_tokens, config, low=1)
        return Dense(tokenizer, trunk, recipe, chosen, name=f"encoder {name!r}", source=source)
    except FitRagError:
        raise
    except Exception as error:
        raise ModelLoadError(f"encoder {name!r} could not be loaded: {error}") from error
