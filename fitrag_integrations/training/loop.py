"""The training loop: deterministic under a seed, resumable, checkpoints as safetensors.

The batch of a step is a function of the seed and the step alone, so a resumed run sees what an
undisturbed one would have seen.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Say how to train. `rate` peaks after `warmup` (a share of the steps), then falls to 0."""

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


@dataclass(frozen=True, slots=True)
class Loop(Generic[Batch]):
    """Fit a module: `batch(step)` gives the data, `module(batch)` named losses whose sum falls."""

    module: nn.Module
    batch: Callable[[int], Batch]
    settings: LoopSettings
    folder: Path
    evaluate: Callable[[], dict[str, float]] | None = None

    def run(self) -> None:
        """Train from the last checkpoint in the folder, or from the start, to the last step."""
        torch.manual_seed(self.settings.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        optimizer = self._optimizer()
        at = self._resume(optimizer)
        saved, seen = time.monotonic(), _Mean()
        while at < self.settings.steps:
            seen.add(self._step(optimizer, at))
            at += 1
            if at % self.settings.log_every == 0:
                self._log({"step": at, **seen.take()})
            if self.evaluate and (at % self.settings.evaluate_every == 0):
                self._log({"step": at, **self._evaluated()})
            if time.monotonic() - saved > self.settings.save_seconds or at == self.settings.steps:
                self._save(optimizer, at)
                saved = time.monotonic()

    def _step(self, optimizer: torch.optim.Optimizer, at: int) -> dict[str, float]:
        for group in optimizer.param_groups:
            group["lr"] = self.settings.rate * group["scale"] * self._schedule(at)
        torch.manual_seed(self.settings.seed * 1_000_003 + at)  # dropout, also after a stop
        self.module.train()
        return self._descend(optimizer, self._losses(self.batch(at)), at)

    def _descend(
        self, optimizer: torch.optim.Optimizer, losses: dict[str, Tensor], at: int
    ) -> dict[str, float]:
        """Take one step down the sum of the losses, and give what is to be logged."""
        torch.stack(list(losses.values())).sum().backward()
        nn.utils.clip_grad_norm_(_trainable(self.module), self.settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        return {name: float(value.detach()) for name, value in losses.items()}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """Run the module; in bfloat16, its trunk on rounded copies of float32 weights.

        Copies beat autocast on a CPU by a quarter: no cast per layer and call.
        """
        if not self.settings.bfloat16:
            return self.module(batch)  # type: ignore[no-any-return]
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        copies = {
            name: value.bfloat16()
            if name.startswith("trunk.") and value.is_floating_point()
            else value
            for name, value in named
        }
        return torch.func.functional_call(self.module, copies, (batch,))  # type: ignore[no-any-return]

    def _schedule(self, at: int) -> float:
        warm = max(1, round(self.settings.warmup * self.settings.steps))
        left = (self.settings.steps - at) / max(1, self.settings.steps - warm)
        return min((at + 1) / warm, max(0.0, left))

    def _optimizer(self) -> torch.optim.Optimizer:
        matrices = [p for p in _trainable(self.module) if p.ndim > 1]
        vectors = [p for p in _trainable(self.module) if p.ndim <= 1]
        return torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": self.settings.weight_decay, "scale": 1.0},
                {"params": vectors, "weight_decay": 0.0, "scale": 1.0},
            ],
            lr=self.settings.rate,
        )

    def _evaluated(self) -> dict[str, float]:
        assert self.evaluate is not None
        self.module.eval()
        with torch.inference_mode():
            return self.evaluate()

    def _log(self, row: dict[str, float]) -> None:
        line = json.dumps({k: round(v, 5) for k, v in row.items()} | {"time": round(time.time())})
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(line + "\n")

    def _save(self, optimizer: torch.optim.Optimizer, at: int) -> None:
        names = _names(self.module)
        state: dict[str, Tensor] = {
            f"{key}/{names[p]}": value.float().clone()
            for p in names
            for values in [optimizer.state[p]]
            for key, value in values.items()
        }
        state |= {f"weight/{name}": p.detach().clone() for p, name in names.items()}
        partial = self.folder / "checkpoint.partial"
        meta = {"step": str(at), "settings": json.dumps(asdict(self.settings))}
        save_file(state, partial, metadata=meta)
        partial.rename(self.folder / "checkpoint.safetensors")

    def _resume(self, optimizer: torch.optim.Optimizer) -> int:
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            return 0
        state = load_file(path)
        with torch.no_grad():
            for p, name in _names(self.module).items():
                p.copy_(state[f"weight/{name}"])
                keys = [k for k in ("step", "exp_avg", "exp_avg_sq") if f"{k}/{name}" in state]
                optimizer.state[p] = {k: state[f"{k}/{name}"] for k in keys}
        with safe_open(path, framework="pt") as file:
            return int(file.metadata()["step"])


class _Mean:
    """Average named losses between two log lines."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0

    def add(self, losses: dict[str, float]) -> None:
        self._count += 1
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def take(self) -> dict[str, float]:
        means = {name: total / self._count for name, total in self._sums.items()}
        self._sums, self._count = {}, 0
        return means


def epochs(
    lengths: Sequence[int], size: int, *, seed: int, bucket: int = 50
) -> Callable[[int], list[int]]:
    """Give a function from a step to the row numbers of its batch.

    Each epoch is a fresh permutation under the seed; rows of like length share a batch (sorted
    inside runs of `bucket` batches), and the batches are shuffled again.
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


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


def _names(module: nn.Module) -> dict[nn.Parameter, str]:
    return {p: name for name, p in module.named_parameters() if p.requires_grad}
