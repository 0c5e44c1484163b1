"""LoRA adapters beside a causal model's weights, by peft: attach, switch, detach, read, write.

The layers are changed in place, so whoever holds the model sees one copy of its weights. Files are
peft's own (`adapter_config.json`, `adapter_model.safetensors`), which serving engines read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
        _list_layers(model)
    switch(model, None)


def merge(model: Any, config: Any, tensors: Mapping[str, Tensor]) -> None:
    """Add an adapter to the weights. Raises `ModelLoadError` if it does not fit."""
    attach(model, config, tensors, "merged")
    for _, layer in model.adapted:
        layer.merge(adapter_names=["merged"])
    detach(model, "merged")


def detach(model: Any, name: str) -> None:
    """Drop an adapter's weights; after the last one the layers are the base's own again."""
    model.peft_config.pop(name, None)
    for path, layer in model.adapted:
        layer.set_adapter([])  # else peft warns that it chooses another
        layer.delete_adapter(name)
        if not model.peft_config:
            model.set_submodule(path, layer.base_layer)
    if not model.peft_config:
        del model.peft_config
    _list_layers(model)


def switch(model: Any, name: str | None) -> None:
    """Run with this adapter alone, or with none, until another one is asked for."""
    if getattr(model, "switched", name) == name:  # also where nothing was ever attached
        return
    for _, layer in model.adapted:
        if name is not None:
            layer.set_adapter(name)
        layer.enable_adapters(name is not None)
    model.switched = name


def save(model: Any, folder: Path, name: str, *, base: str) -> dict[str, str]:
    """Write an attached adapter as peft would; gives the entry that names its weights."""
    from peft import get_peft_model_state_dict

    # without the flag peft looks for the base's config, on the hub if need be
    tensors = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    return write(folder, model.peft_config[name], tensors, base=base)


def write(folder: Path, config: Any, tensors: Mapping[str, Tensor], *, base: str) -> dict[str, str]:
    """Write an adapter that `read` reads; gives the entry that names its weights."""
    config.base_model_name_or_path = base
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    return write_tensors(folder, ADAPTER, {_PREFIX + key: value for key, value in tensors.items()})


def read(folder: Path, entry: Mapping[str, str]) -> tuple[Any, dict[str, Tensor]]:
    """Read an adapter's settings, and its weights after their checksum."""
    config = load_adapter_config(folder)
    tensors = read_tensors(folder, entry)
    return config, {key.removeprefix(_PREFIX): value for key, value in tensors.items()}


def _list_layers(model: Any) -> None:
    """Note the layers that have adapters, which a walk over 7 billion weights takes long to find.

    Which adapter is on is not known then.
    """
    from peft.tuners.lora.layer import Linear
    from peft.tuners.tuners_utils import BaseTunerLayer

    model.switched = ""
    model.adapted = [
        (path, part) for path, part in model.named_modules() if isinstance(part, BaseTunerLayer)
    ]
    for _, layer in cast(list[tuple[str, Any]], model.adapted):
        if type(layer) is Linear:
            vars(layer)["forward"] = partial(_product, layer)


def _product(layer: Any, states: Tensor, *given: Any, **named: Any) -> Tensor:
    """Add an adapter's product in two kernels, where peft's own forward pass takes up to ten."""
    (name, *others), result = layer.active_adapters or [""], None
    other = layer.training or layer.merged or layer.disable_adapters or others
    if name in layer.lora_A and not other:
        first, second = layer.lora_A[name], layer.lora_B[name]
        if first.weight.dtype == states.dtype and second.bias is None and not layer.lora_variant:
            result = layer.base_layer(states)
            low = F.linear(states.flatten(0, -2), first.weight)
            scale, flat = layer.scaling[name], result.flatten(0, -2)
            result = torch.addmm(flat, low, second.weight.T, alpha=scale).view_as(result)
    if result is None:
        result = type(layer).forward(layer, states, *given, **named)
    return cast(Tensor, result)
