"""Checkpoints of a run: weights, the optimizer's state and the step, as safetensors.

The seed of every batch's dropout follows from its number, so there is no state of a random
generator to keep.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fitrag_integrations.core.files import replacing


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    at: int,
    settings: Mapping[str, Any],
) -> None:
    """Write a checkpoint after `at` steps; a run killed meanwhile keeps the last one whole."""
    names = _names(module)
    state: dict[str, Tensor] = {
        f"{key}/{names[p]}": value.float().clone()
        for p in names
        for values in [optimizer.state[p]]
        for key, value in values.items()
    }
    state |= {f"weight/{name}": p.detach().clone() for p, name in names.items()}
    with replacing(path) as beside:
        save_file(state, beside, metadata={"step": str(at), "settings": json.dumps(settings)})


def load_checkpoint(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore weights and state from a checkpoint, and return its step; 0 without one."""
    if not path.exists():
        return 0
    state = load_file(path)
    with torch.no_grad():
        for p, name in _names(module).items():
            p.copy_(state[f"weight/{name}"])
            optimizer.state[p] = {
                key: value if key == "step" else value.to(p.device)  # AdamW counts on the CPU
                for key in ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")
                if (value := state.get(f"{key}/{name}")) is not None
            }
    return step_of(path)


def step_of(path: Path) -> int:
    """Read after how many steps a checkpoint was written; 0 where there is none."""
    if not path.exists():
        return 0
    with safe_open(path, framework="pt") as file:
        return int(file.metadata()["step"])


def _names(module: nn.Module) -> dict[nn.Parameter, str]:
    return {p: name for name, p in module.named_parameters() if p.requires_grad}
