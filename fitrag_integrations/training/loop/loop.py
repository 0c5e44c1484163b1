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
from pathlib import Path
from typing import Annotated, Generic, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

import torch
from torch import Tensor, nn

from fitrag_integrations.core.files import storing
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import Stopping, Terminated
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.loop.checkpoints import load_checkpoint, save_checkpoint
from fitrag_integrations.training.loop.parallel import ALONE, Processes, device_of, has_bfloat16
from fitrag_integrations.training.options import Device

__all__ = ["Batch", "Loop", "LoopSettings", "epochs"]


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
    plans: dict[int, list[list[int]]] = {}

    def batch(step: int) -> list[int]:
        epoch = step // per_epoch
        if epoch not in plans:
            plans.clear()
            plans[epoch] = _plan(lengths, size, seed * 1_000_003 + epoch, bucket)
        return plans[epoch][step % per_epoch]

    return batch


def _plan(lengths: Sequence[int], size: int, seed: int, bucket: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    batches = []
    for at in range(0, len(order), size * bucket):
        run = sorted(order[at : at + size * bucket], key=lengths.__getitem__)
        batches += [run[i : i + size] for i in range(0, len(run), size)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]


OPTIMIZERS = ("adamw", "sgd")


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """List the parameters that train."""
    return [p for p in module.parameters() if p.requires_grad]


def make_optimizer(
    module: nn.Module, name: str, *, rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """Build an optimizer in which only matrices decay.

    Args:
        module: Module whose trainable parameters are optimized.
        name: "adamw" or "sgd".
        rate: Learning rate.
        weight_decay: Weight decay of matrices.
        momentum: Momentum of SGD.
    """
    matrices = [p for p in trainable(module) if p.ndim > 1]
    vectors = [p for p in trainable(module) if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay, "scale": 1.0},
        {"params": vectors, "weight_decay": 0.0, "scale": 1.0},
    ]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=momentum)
    return torch.optim.AdamW(groups, lr=rate)


Batch = TypeVar("Batch")
Seen: TypeAlias = dict[str, Tensor | float]  # what a batch or a step is logged with


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of a training loop. `rate` peaks after `warmup` (a fraction of the steps), then
    decays to 0.

    A step goes down the mean gradient of `accumulate` batches (of each process).
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
    """Fit a module: `batch(number)` gives the data, `module(batch)` named losses whose sum falls.

    `evaluate` gives figures for the log every so many steps and after the last; each process takes
    part in it.
    """

    module: nn.Module
    batch: Callable[[int], Batch]
    settings: LoopSettings
    folder: Path
    evaluate: Callable[[], dict[str, float]] | None = None
    team: Processes = ALONE

    def run(self) -> None:
        """Train from the last checkpoint in the folder, or from the start, to the last step.

        SIGTERM has the step under way end and be saved; then `Terminated` is raised.
        """
        torch.manual_seed(self.settings.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        optimizer = make_optimizer(
            self.module,
            self.settings.optimizer,
            rate=self.settings.rate,
            weight_decay=self.settings.weight_decay,
            momentum=self.settings.momentum,
        )
        at, stopping = load_checkpoint(self._checkpoint, self.module, optimizer), Stopping()
        if self.team.mean({"step": at})["step"] != at:
            raise InputError.of("--out", given=self.folder, allowed="a folder all processes share")
        self.team.share([p.data for p in trainable(self.module)])
        saved, seen, steps = time.monotonic(), _Mean(), self.settings.steps
        # of several processes none may stop alone: the others would wait for it
        with stopping.heard() if self.team.count == 1 else nullcontext():
            try:
                while at < steps:
                    with stopping.batch():
                        seen.add(self._step(optimizer, at))
                        at += 1
                        self._tell(at, seen)
                        if time.monotonic() - saved > self.settings.save_seconds or at == steps:
                            self._save(optimizer, at)
                            saved = time.monotonic()
            except Terminated:
                self._save(optimizer, at)
                raise Terminated(f"after step {at} of {steps}") from None

    def _tell(self, at: int, seen: _Mean) -> None:
        """Log losses and figures after a step where it is time for them."""
        last = at == self.settings.steps
        if at % self.settings.log_every == 0 or last:
            means = {name: float(value) for name, value in seen.take().items()}
            self._log({"step": at, **self.team.mean(means)})
        if self.evaluate and (at % self.settings.evaluate_every == 0 or last):
            self.module.eval()
            with torch.inference_mode():
                self._log({"step": at, **self.evaluate()})

    def _step(self, optimizer: torch.optim.Optimizer, at: int) -> Seen:
        for group in optimizer.param_groups:
            group["lr"] = self.settings.rate * group["scale"] * self._schedule(at)
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
        if not (self.settings.bfloat16 and has_bfloat16(device)):
            return self.module(batch)  # type: ignore[no-any-return]
        named = dict(self.module.named_parameters())
        if device.type != "cpu":
            with torch.autocast(device.type, torch.bfloat16):
                return self.module(batch)  # type: ignore[no-any-return]
        copies = {
            name: value.bfloat16() if name.startswith("trunk.") else value
            for name, value in named.items()
        }
        return torch.func.functional_call(self.module, copies, (batch,))  # type: ignore[no-any-return]

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
