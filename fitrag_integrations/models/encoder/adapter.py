"""A LoRA adapter as plain tensors, folded into the weights when it is loaded (Hu et al., 2021).

Two factors per layer, `B` scaled already, so that loading is one product and needs neither peft nor
its second or two of import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError


def factors(adapted: Any, *, dtype: torch.dtype = torch.float16) -> dict[str, Tensor]:
    """Copy the factors of a peft model's adapter to the CPU; names end in `.A` and `.B`."""
    found = {}
    for name, module in adapted.base_model.model.named_modules():
        if hasattr(module, "lora_A"):
            scale = module.scaling["default"]
            found[f"{name}.A"] = module.lora_A["default"].weight.detach().to("cpu", dtype)
            found[f"{name}.B"] = (scale * module.lora_B["default"].weight.detach()).to("cpu", dtype)
    return found


@torch.no_grad()
def fold(encoder: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Add `B A` to each layer's weight, which then counts as tuned."""
    weights = dict(encoder.named_parameters())
    for layer in sorted({name.rpartition(".")[0] for name in tensors}):
        weight = weights.get(f"{layer}.weight")
        first, second = tensors.get(f"{layer}.A"), tensors.get(f"{layer}.B")
        if weight is None or first is None or second is None:
            raise ModelLoadError(f"adapter: {layer!r} does not fit the encoder")
        change = second.float() @ first.float()
        if change.shape != weight.shape:
            raise ModelLoadError(f"adapter: {layer!r} does not fit the encoder")
        weight.add_(change)
        weight.requires_grad_(True)
