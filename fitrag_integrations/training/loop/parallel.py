"""Devices, and several processes that train one model on their own parts of each step.

Each process holds all weights and takes its own batches (data parallel); gradients are averaged
before each step, so all take the same one. `accelerate launch` or `torchrun` starts them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.models.runtime.engine import Options

SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # torch's, MPI's


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's place among several. For a single process every method is a no-op.

    All processes must make the same calls in the same order. `device` is where they exchange.
    """

    rank: int = 0
    count: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and logs."""
        return self.rank == 0

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Copy the tensors of the first process to all, in place."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their mean over all processes, which is the same bits everywhere."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        parts = (flat / self.count).split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Average gradients; one that any process has counts as 0 where another has none."""
        if self.count == 1:
            return
        held = torch.tensor([p.grad is not None for p in parameters], device=self.device).int()
        distributed.all_reduce(held)
        for p, holders in zip(parameters, held.tolist(), strict=True):
            if holders and p.grad is None:
                p.grad = torch.zeros_like(p)
        self.average([p.grad for p in parameters if p.grad is not None])

    def mean(self, row: Mapping[str, float]) -> dict[str, float]:
        """Average numbers that go by the same names in all processes."""
        values = torch.tensor([*row.values()], dtype=torch.float64, device=self.device)
        self.average([values])
        return dict(zip(row, values.tolist(), strict=True))

    def mine(self, count: int) -> range:
        """Return this process's share of `count` things, in order."""
        return range(self.rank * count // self.count, (self.rank + 1) * count // self.count)

    def gather(self, part: Tensor, count: int, places: range) -> Tensor:
        """Concatenate the parts of all processes. Shapes: (places, ...) to (count, ...).

        Args:
            part: Results of this process. Shape: (places, ...).
            count: Number of all results.
            places: Those of this process.
        """
        if self.count == 1:
            return part
        whole = torch.zeros(count, *part.shape[1:], device=self.device, dtype=part.dtype)
        whole[places.start : places.stop] = part.to(self.device)
        distributed.all_reduce(whole)
        return whole.to(part.device)


ALONE = Processes()
talked_by = ""
"""The backend of the group that this process was in, such as gloo; it stays when the group ends."""


def join(device: torch.device) -> tuple[Processes, torch.device]:
    """Join the processes that a launcher started. Gives who this is and its own device.

    Reads what `accelerate launch`, `torchrun` and MPI set in the environment; without it, this is
    alone. Processes on a CPU talk by gloo, on GPUs by NCCL.
    """
    if max(int(os.environ.get(name, 1)) for name in SIZES) == 1:
        return ALONE, device
    accelerate = require_extra("accelerate", extra="train", feature="training in processes")
    state = accelerate.PartialState(cpu=device.type == "cpu")
    return Processes(state.process_index, state.num_processes, state.device), state.device


def lost_processes() -> bool:
    """Check whether `accelerate launch --cpu` was to start several processes and started one.

    It does so where it has no MPI, and says nothing.
    """
    asked = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
    several = "MASTER_PORT" in os.environ
    return asked and several and not any(name in os.environ for name in SIZES)


def leave() -> None:
    """End the group of processes, if there is one."""
    global talked_by
    if distributed.is_available() and distributed.is_initialized():
        talked_by = str(distributed.get_backend())
        distributed.destroy_process_group()


def training_device(name: str | None) -> torch.device:
    """Return the device named, None is CUDA where it is there; raises `InputError` for no
    device.
    """
    return Options(device=name).resolved()[0]


def has_bfloat16(device: torch.device) -> bool:
    """Check whether a device computes in bfloat16 itself; where it is emulated float32 is
    faster.
    """
    return device.type != "cuda" or Options(str(device)).resolved()[1] is torch.bfloat16


def device_of(module: nn.Module) -> torch.device:
    """Return the device that a module's parameters are on."""
    return next(module.parameters()).device


def full_precision(device: torch.device) -> torch.autocast:
    """Compute heads and losses, which are small and what counts, in float32 all the same."""
    return torch.autocast(device.type, enabled=False)
