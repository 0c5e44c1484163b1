"""Load, save and train encoders: the base by name, with the tuned weights on top.

Tuned weights are either whole layers (stored in half precision, about 21 MB for all six layers of
MiniLM; the embeddings stay the base's), or a LoRA adapter in peft's own format.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from fitrag_integrations.core.checks import check_is, check_whole
from fitrag_integrations.errors import ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.encoder.recipe import POOLINGS
from fitrag_integrations.models.encoder.trunk import Trunk, is_decoder
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.folder import (
    read_manifest,
    read_tensors,
    reading,
    unscaled,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.loading import (
    T5_LIKE,
    check_vocabulary,
    checked_length,
    load_adapter,
)
from fitrag_integrations.models.runtime.sources import weights_source

MANIFEST = "encoder.json"
MAX_LENGTH = 384
MIN_LENGTH = 16  # of an input, in tokens
LEVELS = 127  # of eight bits with a sign
WORDS = "embeddings.word_embeddings.weight"


def load_base(
    name_or_dir: str, options: Options | None = None, *, attention: str | None = None
) -> tuple[Trunk, Any]:
    """Load a pretrained encoder and its tokenizer, on the CPU in float32.

    Weights are float32 however they are stored: small training steps are lost in half precision.
    Only the encoder of a T5 is loaded.

    Args:
        name_or_dir: Hub name or folder.
        options: Keyword arguments for transformers. A model that they quantize or place on devices
            has their data type.
        attention: Attention implementation where `options` name none.

    Returns:
        Trunk without trainable parameters, and tokenizer.
    """
    given = options or Options()
    checkpoint = given.checkpoint(weights_source(name_or_dir), f"base model {name_or_dir!r}")
    tokenizer = checkpoint.tokenizer()
    placed = {"quantization_config", "device_map"} & given.model_kwargs.keys()
    how: dict[str, Any] = {"dtype": given.resolved()[1] if placed else torch.float32}
    how |= {"attn_implementation": attention} if attention else {}
    how = {name: value for name, value in how.items() if name not in given.model_kwargs}
    kind = checkpoint.config().model_type
    if kind in T5_LIKE:
        encoder, pooling = checkpoint.model("T5EncoderModel", **how), "mean"
    else:
        encoder = checkpoint.model("AutoModel", **how)
        pooling = "last" if is_decoder(kind) else "first"
    check_vocabulary(encoder, tokenizer, checkpoint.what)
    # who trains it says what trains, and only that is saved
    return Trunk(encoder, pooling=pooling).requires_grad_(False), tokenizer


def load_encoder(
    folder: Path, options: Options | None = None, *, attention: str | None = None
) -> tuple[Trunk, PairTokenizer]:
    """Load an encoder folder: the base, then the tuned weights.

    Args:
        folder: Folder of `save_encoder`.
        options: Keyword arguments for transformers, and the maximum input length in the place of
            the folder's.
        attention: Attention implementation where `options` name none.

    Returns:
        Trunk on the CPU in float32, as `load_base`, and tokenizer of pairs.

    Raises:
        InputError: If `max_length` is larger than the number of positions.
        ModelLoadError: If a file is missing or damaged.
    """
    given = options or Options()
    manifest = read_manifest(
        folder, MANIFEST, kind="encoder", needs=("base", "pooling", "max_length")
    )
    with reading(folder):
        length = check_whole("max_length", manifest["max_length"], low=MIN_LENGTH)
        pooling = manifest["pooling"]
        refuse_if(pooling not in POOLINGS, "pooling", pooling, " or ".join(POOLINGS))
        trunk, tokenizer = load_base(manifest["base"], given, attention=attention)
        trunk.pooling = pooling
        trunk.rounded = check_is("rounded", manifest.get("rounded", False), bool)
        if trunk.rounded:
            _round_embeddings(trunk.encoder, folder)
        if manifest.get("tuned"):
            named, entry = dict(trunk.encoder.named_parameters()), manifest["tuned"]
            for name, tensor in unscaled(read_tensors(folder, entry)).items():
                raise_if(
                    name not in named or named[name].shape != tensor.shape,
                    ModelLoadError,
                    f"{folder / entry['file']}: {name!r} does not fit the base model",
                )
                named[name].data.copy_(tensor)
                named[name].requires_grad_(True)
        if manifest.get("adapter"):  # folded in, so that inference pays nothing for it
            tuned = tuned_names(trunk.encoder)
            trunk.encoder = fold_adapter(load_adapter(trunk.encoder, folder), tuned)
        checked_length(length, trunk.encoder.config, low=MIN_LENGTH)
    if given.max_length is not None:
        length = checked_length(given.max_length, trunk.encoder.config, low=MIN_LENGTH)
    return trunk, PairTokenizer(tokenizer, max_length=length)


def save_encoder(trunk: Trunk, folder: Path, *, base: str, max_length: int = MAX_LENGTH) -> None:
    """Save the tuned weights: the peft adapter, or the trained parameters in half precision."""
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {"base": base, "pooling": trunk.pooling, "max_length": max_length}
    fields |= {"rounded": True} if trunk.rounded else {}
    encoder: Any = trunk.encoder
    if hasattr(encoder, "peft_config"):
        encoder.save_pretrained(folder)
        fields["adapter"] = True
    else:
        tuned = {n: p.half() for n, p in encoder.named_parameters() if p.requires_grad}
        fields["tuned"] = write_tensors(folder, "tuned.safetensors", tuned) if tuned else None
    write_manifest(folder, MANIFEST, kind="encoder", fields=fields)


@torch.no_grad()
def _round_embeddings(encoder: nn.Module, folder: Path) -> None:
    """Round as what runs without torch is: words to eight bits and a scale, the rest to half."""
    named = dict(encoder.named_parameters())
    words = named.pop(WORDS, None)
    if words is None:
        raise ModelLoadError(f"{folder / MANIFEST}: only BERT's embeddings can be 'rounded'")
    scale = words.abs().amax(1, keepdim=True).clamp(min=1e-8) / LEVELS
    words.copy_((words / scale).round() * scale)
    for name, parameter in named.items():
        if name.startswith("embeddings."):
            parameter.copy_(parameter.half().float())


def tuned_names(encoder: nn.Module) -> set[str]:
    """Return the names of the trainable parameters, which are the ones saved."""
    return {name for name, p in encoder.named_parameters() if p.requires_grad}


def fold_adapter(adapted: Any, tuned: set[str]) -> nn.Module:
    """Merge an adapter into its encoder; the changed weights count as tuned, as do `tuned`."""
    modules = adapted.base_model.model.named_modules()
    changed = {f"{name}.weight" for name, module in modules if hasattr(module, "lora_A")}
    merged: nn.Module = adapted.merge_and_unload()
    for name, parameter in merged.named_parameters():
        parameter.requires_grad_(name in changed | tuned)
    return merged
