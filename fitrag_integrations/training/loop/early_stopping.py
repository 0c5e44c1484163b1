"""Keep the weights that were best on what was held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from fitrag_integrations.core.files import replacing
from fitrag_integrations.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Best:
    """Keep the trained weights that had the lowest loss on what was held out.

    Of equal ones the earliest stays. Only one of several processes `writes`.
    """

    module: nn.Module
    path: Path
    loss: Callable[[], float]
    writes: bool = True

    def __call__(self) -> dict[str, float]:
        """Measure, and save if it is the lowest so far; also of an earlier run."""
        value = self.loss()
        if math.isnan(value):
            raise TrainingError("the held-out loss is no number: training diverged; lower the rate")
        if self.writes and value < self._lowest():
            kept = {name: p.detach().clone() for name, p in self._trained()}
            with replacing(self.path) as beside:
                save_file(kept, beside, metadata={"loss": str(value)})
        return {"held_out": value}

    def restore(self) -> None:
        """Restore the best weights."""
        saved = load_file(self.path)
        with torch.no_grad():
            for name, parameter in self._trained():
                parameter.copy_(saved[name])

    def _lowest(self) -> float:
        if not self.path.exists():
            return math.inf
        with safe_open(self.path, framework="pt") as file:
            return float(file.metadata()["loss"])

    def _trained(self) -> Iterable[tuple[str, nn.Parameter]]:
        return ((name, p) for name, p in self.module.named_parameters() if p.requires_grad)
