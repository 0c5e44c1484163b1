"""How a run is carried out, which changes nothing of what it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fitrag_integrations.core.option import Option
from fitrag_integrations.training.options import Device


@dataclass(frozen=True, slots=True)
class Running:
    """Say how a run is carried out.

    `device` None is CUDA where it is there, else the CPU; a head alone is fitted on the CPU unless
    another device is named.
    """

    device: Device = None
    log_every: Annotated[int, Option("Steps between lines of the log.", min=1)] = 50
    save_seconds: Annotated[
        float, Option("Seconds between checkpoints, 0 for one a step.", min=0)
    ] = 300.0
