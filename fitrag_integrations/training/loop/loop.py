"""The training loop: deterministic under a seed, resumable, checkpoints as safetensors.

The data of a batch and the seed of its dropout are functions of the seed and the batch's number
alone, so a resumed run sees what an undisturbed one would have seen, and so do several processes:
step k of p processes that accumulate n batches takes batches k * n * p and on, each process n.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from fitrag_integrations.core.files import storing
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import Stopping, Terminated, chunks
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.training.loop.checkpoints import Best, load_checkpoint, save_checkpoint
from fitrag_integrations.training.loop.parallel import ALONE, Processes, device_of, has_bfloat16
from fitrag_integrations.training.options import Device

__all__ = ["Batch", "Loop", "LoopSettings", "epochs", "steps_over"]


def epochs(
    lengths: Sequence[int], size: int, *, seed: int, bucket: int = 50
) -> Callable[[int], list[int]]:
    """Return a function from a step to the row numbers of its batch.

    Each epoch is a fresh permutation under the seed; rows of like length share a batch (sorted
    inside runs of `bucket` batches), and the batches are shuffled again.

    Args:
        lengths: Length of each row.
        size: Rows per batch.
        seed: Random seed.
        bucket: Batches whose rows are sorted together.
    """
    per_epoch = math.ceil(len(lengths) / size)

    @lru_cache(maxsize=1)
    def plan(epoch: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(lengths), generator=generator).tolist()
        batches = list[list[int]]()
        for run in chunks(order, size * bucket):
            batches += chunks(sorted(run, key=lengths.__getitem__), size)
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    return lambda step: plan(step // per_epoch)[step % per_epoch]


def steps_over(rows: int, size: int, passes: float) -> int:
    """Return the steps of some passes over rows.

    Args:
        rows: Number of rows.
        size: Rows per step, in all processes together.
        passes: Number of passes.
    """
    return max(1, math.ceil(passes * rows / size))


OPTIMIZERS = ("adamw", "sgd")


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """List the parameters that train."""
    return [p for p in module.parameters() if p.requires_grad]


Batch = TypeVar("Batch")
Seen: TypeAlias = dict[str, Tensor | float]  # what a batch or a step is logged with


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of a training loop.

    Args:
        steps: Number of steps.
        rate: Peak learning rate, reached after the warmup; it then decays to 0.
        warmup: Fraction of the steps.
        weight_decay: Weight decay of matrices.
        clip: Norm at which gradients are clipped.
        seed: Random seed.
        bfloat16: Whether to compute in bfloat16 where the device does.
        save_seconds: Seconds between checkpoints.
        evaluate_every: Steps between evaluations; there is one after the last step.
        log_every: Steps between lines of the log.
        accumulate: Batches of each process whose mean gradient a step follows.
        optimizer: "adamw" or "sgd".
        momentum: Momentum of SGD.
    """

    steps: int
    rate: float = 2e-4
    warmup: float = 0.06
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 13
    bfloat16: bool = True
    save_seconds: float = 300.0
    evaluate_every: int = 500
    log_every: int = 50
    accumulate: int = 1
    optimizer: str = "adamw"
    momentum: float = 0.9


@dataclass(frozen=True, slots=True)
class Loop(Generic[Batch]):
    """Training of a module.

    Args:
        module: Module that returns named losses of a batch, whose sum falls.
        batch: Function from a number to a batch.
        settings: Settings of the loop.
        folder: Folder of the run.
        evaluate: Function that returns figures for the log; each process takes part in it.
        team: Processes that share each step.
        held_out: Held-out loss, evaluated and logged; the run ends with the weights for which it
            was lowest, in the first process.
    """

    module: nn.Module
    batch: Callable[[int], Batch]
    settings: LoopSettings
    folder: Path
    evaluate: Callable[[], dict[str, float]] | None = None
    team: Processes = ALONE
    held_out: Callable[[], float] | None = None

    def run(self) -> None:
        """Train from the last checkpoint in the folder, or from the start, to the last step.

        SIGTERM has the step under way end and be saved; then `Terminated` is raised.
        """
        torch.manual_seed(self.settings.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        optimizer, evaluate = self._optimizer(), self.evaluate
        if self.held_out is not None:
            path = self.folder / "best.safetensors"
            evaluate = best = Best(self.module, path, self.held_out, writes=self.team.first)
        at, stopping = load_checkpoint(self._checkpoint, self.module, optimizer), Stopping()
        allowed = "a folder all processes share"
        refuse_if(self.team.mean({"step": at})["step"] != at, "--out", self.folder, allowed)
        self.team.share([p.data for p in trainable(self.module)])
        saved, seen, steps = time.monotonic(), _Mean(), self.settings.steps
        # of several processes none may stop alone: the others would wait for it
        with stopping.heard() if self.team.count == 1 else nullcontext():
            try:
                while at < steps:
                    with stopping.batch():
                        seen.add(self._step(optimizer, at))
                        at += 1
                        self._report(at, seen, evaluate)
                        if time.monotonic() - saved > self.settings.save_seconds or at == steps:
                            self._save(optimizer, at)
                            saved = time.monotonic()
            except Terminated:
                self._save(optimizer, at)
                raise Terminated(f"after step {at} of {steps}") from None
        if self.held_out is not None and self.team.first:
            best.restore()

    def _report(
        self, at: int, seen: _Mean, evaluate: Callable[[], dict[str, float]] | None
    ) -> None:
        """Log losses and figures after a step where it is time for them."""
        last = at == self.settings.steps
        if at % self.settings.log_every == 0 or last:
            means = {name: float(value) for name, value in seen.take().items()}
            self._log({"step": at, **self.team.mean(means)})
        if evaluate and (at % self.settings.evaluate_every == 0 or last):
            self.module.eval()
            with torch.inference_mode():
                self._log({"step": at, **evaluate()})

    def _optimizer(self) -> torch.optim.Optimizer:
        """Build the optimizer; only matrices decay."""
        tuned, settings = trainable(self.module), self.settings
        groups = [
            {"params": [p for p in tuned if p.ndim > 1], "weight_decay": settings.weight_decay},
            {"params": [p for p in tuned if p.ndim <= 1], "weight_decay": 0.0},
        ]
        if settings.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=settings.rate, momentum=settings.momentum)
        return torch.optim.AdamW(groups, lr=settings.rate)

    def _step(self, optimizer: torch.optim.Optimizer, at: int) -> Seen:
        for group in optimizer.param_groups:
            group["lr"] = self.settings.rate * self._schedule(at)
        seen, each = _Mean(), self.settings.accumulate
        first = (at * self.team.count + self.team.rank) * each
        for number in range(first, first + each):
            torch.manual_seed(self.settings.seed * 1_000_003 + number)  # dropout, also after a stop
            self.module.train()
            seen.add(self._backward(self._losses(self.batch(number))))
        self._descend(optimizer, at)
        return seen.take()

    def _backward(self, losses: dict[str, Tensor]) -> Seen:
        """Add a batch's share to the gradients, and give what is to be logged."""
        (torch.stack(list(losses.values())).sum() / self.settings.accumulate).backward()
        return {name: value.detach() for name, value in losses.items()}

    def _descend(self, optimizer: torch.optim.Optimizer, at: int) -> None:
        """Run one optimizer step on gradients averaged over all batches of the step."""
        tuned = trainable(self.module)
        self.team.average_gradients(tuned)
        nn.utils.clip_grad_norm_(tuned, self.settings.clip)
        optimizer.step()
        optimizer.zero_grad()

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """Run the module; in bfloat16, by autocast, or on a CPU its trunk on rounded copies.

        Copies beat autocast there by a quarter: no cast per layer and call. Buffers stay as they
        are: among them are the frequencies of rotary positions, which rounding would spoil.
        """
        device = device_of(self.module)
        rounds = self.settings.bfloat16 and has_bfloat16(device)
        if rounds and device.type == "cpu":
            copies = {
                name: value.bfloat16() if name.startswith("trunk.") else value
                for name, value in self.module.named_parameters()
            }
            return torch.func.functional_call(self.module, copies, (batch,))  # type: ignore[no-any-return]
        with torch.autocast(device.type, torch.bfloat16) if rounds else nullcontext():
            return self.module(batch)  # type: ignore[no-any-return]

    def _schedule(self, at: int) -> float:
        warm = max(1, round(self.settings.warmup * self.settings.steps))
        left = (self.settings.steps - at) / max(1, self.settings.steps - warm)
        return min((at + 1) / warm, max(0.0, left))

    def _log(self, row: dict[str, float]) -> None:
        if self.team.first:
            rounded = {k: round(v, 5) for k, v in row.items()}
            path = self.folder / "log.jsonl"
            with storing(path), path.open("a") as log:
                log.write(json.dumps(rounded | {"time": round(time.time())}) + "\n")

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    def _save(self, optimizer: torch.optim.Optimizer, at: int) -> None:
        if self.team.first:
            save_checkpoint(self._checkpoint, self.module, optimizer, at, asdict(self.settings))


class _Mean:
    """Average named losses between two log lines; they stay on the device till then."""

    def __init__(self) -> None:
        self._sums: Seen = {}
        self._count = 0

    def add(self, losses: Seen) -> None:
        self._count += 1
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def take(self) -> Seen:
        means = {name: total / self._count for name, total in self._sums.items()}
        self._sums, self._count = {}, 0
        return means


@dataclass(frozen=True, slots=True)
class Running:
    """Device, logging and checkpoints of a run.

    Args:
        device: Device; by default a GPU if there is one, else the CPU. A head alone is fitted on
            the CPU unless a device is named.
        log_every: Steps between lines of the log.
        save_seconds: Seconds between checkpoints, 0 for one a step.
    """

    device: Device = None
    log_every: Annotated[int, Option("Steps between lines of the log.", min=1)] = 50
    save_seconds: Annotated[
        float, Option("Seconds between checkpoints, 0 for one a step.", min=0)
    ] = 300.0
