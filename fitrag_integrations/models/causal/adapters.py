"""LoRA adapters beside a causal model's weights, by peft: attach, switch, detach, read, write.

The layers are changed in place, so whoever holds the model sees one copy of its weights. Files are
peft's own (`adapter_config.json`, `adapter_model.safetensors`), which serving engines read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.runtime.folder import read_tensors, write_tensors
from fitrag_integrations.models.runtime.loading import ADAPTER, load_adapter_config

_PREFIX = "base_model.model."  # how peft spells the names of a whole adapted model


def lora_config(model: nn.Module, *, rank: int, alpha: int, dropout: float) -> Any:
    """Describe an adapter on all linear layers but the output."""
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )


def attach(model: Any, config: Any, tensors: Mapping[str, Tensor], name: str) -> None:
    """Add an adapter under a name, switched off. Raises `ModelLoadError` if it does not fit."""
    from peft import inject_adapter_in_model, set_peft_model_state_dict

    others = model.__dict__.pop("peft_config", {})  # peft warns of a second adapter; it is meant
    try:
        inject_adapter_in_model(config, model, adapter_name=name)
        if tensors:
            found: Any = set_peft_model_state_dict(model, dict(tensors), adapter_name=name)
            if found.unexpected_keys:
                raise ValueError(f"{found.unexpected_keys[0]!r} is no part of it")
    except (RuntimeError, ValueError) as error:
        raise ModelLoadError(f"the adapter does not fit the base model: {error}") from error
    finally:
        model.peft_config = others | getattr(model, "peft_config", {})
        model.train(model.training)  # peft's layers, their dropout too, are made training
    switch(model, None)


def merge(model: Any, config: Any, tensors: Mapping[str, Tensor]) -> None:
    """Add an adapter to the weights. Raises `ModelLoadError` if it does not fit."""
    attach(model, config, tensors, "merged")
    for layer in list(_layers(model)):
        layer.merge(adapter_names=["merged"])
    detach(model, "merged")


def detach(model: Any, name: str) -> None:
    """Drop an adapter's weights; after the last one the layers are the base's own again."""
    adapted = set(_layers(model))
    layers = [(path, layer) for path, layer in model.named_modules() if layer in adapted]
    model.peft_config.pop(name, None)
    for path, layer in layers:
        layer.set_adapter([])  # else peft warns that it chooses another
        layer.delete_adapter(name)
        if not model.peft_config:
            model.set_submodule(path, layer.base_layer)
    if not model.peft_config:
        del model.peft_config


def switch(model: nn.Module, name: str | None) -> None:
    """Run with this adapter alone, or with none."""
    for layer in _layers(model):
        if name is not None:
            layer.set_adapter(name)
        layer.enable_adapters(name is not None)


def save(model: Any, folder: Path, name: str, *, base: str) -> dict[str, str]:
    """Write an adapter as peft would; gives the entry that names its weights."""
    from peft import get_peft_model_state_dict

    # without the flag peft looks for the base's config, on the hub if need be
    tensors = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    config = model.peft_config[name]
    config.base_model_name_or_path = base
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    return write_tensors(folder, ADAPTER, {_PREFIX + key: value for key, value in tensors.items()})


def read(folder: Path, entry: Mapping[str, str]) -> tuple[Any, dict[str, Tensor]]:
    """Read an adapter's settings, and its weights after their checksum."""
    config = load_adapter_config(folder)
    tensors = read_tensors(folder, entry)
    return config, {key.removeprefix(_PREFIX): value for key, value in tensors.items()}


def _layers(model: nn.Module) -> Iterator[Any]:
    if not hasattr(model, "peft_config"):  # nothing was ever attached, and peft is slow to import
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    yield from (module for module in model.modules() if isinstance(module, BaseTunerLayer))
