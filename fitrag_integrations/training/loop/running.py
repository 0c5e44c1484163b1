"""How a run is carried out, which changes nothing of what it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol, TypedDict, Unpack

from fitrag_integrations.core.option import Option
from fitrag_integrations.training.loop.loop import LoopSettings
from fitrag_integrations.training.options import Device


class Fitted(Protocol):
    """Fields that every plan has."""

    @property
    def rate(self) -> float: ...

    @property
    def seed(self) -> int: ...

    @property
    def bfloat16(self) -> bool: ...


class MoreSettings(TypedDict, total=False):
    """Settings that only some plans have."""

    evaluate_every: int
    accumulate: int
    optimizer: str
    momentum: float


@dataclass(frozen=True, slots=True)
class Running:
    """How a run is carried out.

    `device` None is CUDA where it is there, else the CPU; a head alone is fitted on the CPU unless
    another device is named.
    """

    device: Device = None
    log_every: Annotated[int, Option("Steps between lines of the log.", min=1)] = 50
    save_seconds: Annotated[
        float, Option("Seconds between checkpoints, 0 for one a step.", min=0)
    ] = 300.0

    def settings(self, plan: Fitted, steps: int, **more: Unpack[MoreSettings]) -> LoopSettings:
        """Return the loop settings of a plan."""
        return LoopSettings(
            steps,
            plan.rate,
            seed=plan.seed,
            bfloat16=plan.bfloat16,
            save_seconds=self.save_seconds,
            log_every=self.log_every,
            **more,
        )
