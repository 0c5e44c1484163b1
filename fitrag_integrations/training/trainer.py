"""Training on transformers' `Trainer`: numbered batches, named losses, one run in a folder.

A batch is a function of its number, so a resumed run and several processes see the same batches as
a single uninterrupted process. Checkpoints contain only the weights that are trained. `accelerate
launch` or `torchrun` starts several processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.files import only_writer, storing, write_whole
from fitrag_integrations.core.generic import R
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import Stopping, Terminated, chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import TrainingError, raise_if, refuse_if
from fitrag_integrations.models.runtime.engine import Options, multiplies_bfloat16
from fitrag_integrations.models.runtime.placing import attending
from fitrag_integrations.training.options import Device

Given = ParamSpec("Given")
OPTIMIZERS = {"adamw": "adamw_torch", "sgd": "sgd"}
WEIGHTS = "model.safetensors"  # the name under which `Trainer` looks for weights


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    Args:
        steps: Number of steps.
        rate: Peak learning rate, reached after 6 % of the steps; it then decays to 0.
        weight_decay: Weight decay of matrices.
        seed: Random seed.
        bfloat16: Whether to compute in bfloat16 if the device supports it.
        save_seconds: Seconds between checkpoints.
        evaluate_every: Steps between evaluations of the held-out loss; 0 for none.
        log_every: Steps between lines of the log.
        accumulate: Batches per process and step, whose gradients are averaged.
        optimizer: "adamw" or "sgd".
        momentum: Momentum of SGD.
    """

    steps: int
    rate: float
    weight_decay: float = 0.01
    seed: int = 13
    bfloat16: bool = True
    save_seconds: float = 300.0
    evaluate_every: int = 0
    log_every: int = 50
    accumulate: int = 1
    optimizer: str = "adamw"
    momentum: float = 0.9


@dataclass(frozen=True, slots=True)
class Running:
    """Device, logging and checkpoints of a run.

    Args:
        device: "cpu" or "cuda"; by default a GPU if there is one, else the CPU. A head alone is
            fitted on the CPU by default.
        log_every: Steps between lines of the log.
        save_seconds: Seconds between checkpoints; 0 for one per step.
    """

    device: Device = None
    log_every: Annotated[int, Option("Steps between lines of the log.", min=1)] = 50
    save_seconds: Annotated[
        float, Option("Seconds between checkpoints, 0 for one a step.", min=0)
    ] = 300.0


class ModuleTrainer(Trainer):
    """`Trainer` of a module that returns named losses of a batch and minimizes their sum.

    Args:
        module: Module, on its device.
        batch: Function from a number to a batch. Step k of p processes that accumulate n batches
            uses the batches from k * n * p on.
        settings: Settings of the run.
        folder: Folder of the run.
        held_out: Held-out loss; the run ends with the weights for which it was lowest.
    """

    def __init__(
        self,
        module: nn.Module,
        batch: Callable[[int], Any],
        settings: Settings,
        folder: Path,
        held_out: Callable[[], float] | None = None,
    ) -> None:
        require_extra("accelerate", extra="train", feature="training")
        device = device_of(module)
        evaluated = held_out is not None and settings.evaluate_every > 0
        schedule: dict[str, Any] = {"save_steps": settings.steps}
        if evaluated:  # `Trainer` keeps the best of the weights that it saved
            every = min(settings.evaluate_every, settings.steps)
            schedule = {"eval_strategy": "steps", "eval_steps": every, "save_steps": every}
            schedule |= {"load_best_model_at_end": True, "metric_for_best_model": "loss"}
        fused = device.type == "cuda" and settings.optimizer == "adamw"  # a few kernels a step
        arguments = TrainingArguments(
            str(folder),
            max_steps=settings.steps,
            learning_rate=settings.rate,
            lr_scheduler_type="linear",
            warmup_steps=max(1, round(0.06 * settings.steps)),
            weight_decay=settings.weight_decay,
            optim=OPTIMIZERS[settings.optimizer] + ("_fused" if fused else ""),
            optim_args=f"momentum={settings.momentum}" if settings.optimizer == "sgd" else None,
            max_grad_norm=1.0,
            seed=settings.seed,
            bf16=settings.bfloat16 and multiplies_bfloat16(device),
            gradient_accumulation_steps=settings.accumulate,
            logging_steps=settings.log_every,
            save_strategy="steps",
            save_total_limit=2,  # the best and the last, which a finished run starts from again
            per_device_train_batch_size=1,
            use_cpu=device.type == "cpu",
            ddp_backend="gloo" if device.type == "cpu" and process_count() > 1 else None,
            ddp_find_unused_parameters=True,
            dataloader_pin_memory=False,
            remove_unused_columns=False,
            disable_tqdm=True,
            report_to="none",
            **schedule,
        )
        arguments._n_gpu = min(1, arguments.n_gpu)  # else one process spreads over all cards
        self.module, self.folder = module, folder
        self.settings, self.held_out = settings, held_out
        self._batch, self._parts = batch, defaultdict[str, list[Tensor]](list)
        super().__init__(
            module,
            arguments,
            train_dataset=range(settings.steps * settings.accumulate * arguments.world_size),
            eval_dataset=range(0) if evaluated else None,
            callbacks=[_Run(settings.save_seconds)],
        )
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the batches in the order of their numbers; each process takes its own."""

        def load(numbers: list[int]) -> dict[str, Any]:
            return {"batch": self._batch(numbers[0])}

        numbers: Any = self.train_dataset
        loader: Any = DataLoader(numbers, batch_size=1, collate_fn=load)
        return cast(DataLoader[Any], self.accelerator.prepare(loader))

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Return the names of matrices; nothing else decays."""
        return [name for name, p in model.named_parameters() if p.ndim > 1]

    def losses(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """Compute the named losses of a batch, and record them for the log.

        Args:
            model: Module that returns its losses.
            batch: Batch of the module.
        """
        with attending(self.args.device):
            parts: dict[str, Tensor] = model(batch)
        for name, value in parts.items():
            self._parts[name].append(value.detach())
        return parts

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], *others: Any, **named: Any
    ) -> Tensor:
        """Return the sum of the losses of a batch."""
        return torch.stack(list(self.losses(model, inputs["batch"]).values())).sum()

    def evaluate(self, *given: Any, **named: Any) -> dict[str, float]:
        """Compute the held-out loss.

        Raises:
            TrainingError: If it is NaN.
        """
        assert self.held_out is not None
        self.module.eval()
        with torch.inference_mode():
            figures = {"eval_loss": float(self.held_out())}
        raise_if(
            math.isnan(figures["eval_loss"]),
            TrainingError,
            "The held-out loss is NaN: training diverged. Lower the rate.",
        )
        self.log(figures)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, figures
        )
        return figures

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log figures, and with those of a step the mean of each named loss since the last line."""
        if "loss" in logs:
            logs |= {name: float(torch.stack(v).mean()) for name, v in self._parts.items()}
            self._parts.clear()
        super().log(logs, start_time)

    def _stored(self) -> dict[str, Tensor]:
        """Return what trains, and buffers: the frozen part of a base may be 14 GB."""
        frozen = {name for name, p in self.module.named_parameters() if not p.requires_grad}
        parts = [*self.module.named_parameters(), *self.module.named_buffers()]
        state = self.module.state_dict()
        return {name: state[name].detach() for name, _ in parts if name in state.keys() - frozen}

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self.args.should_save:
            folder = Path(output_dir or self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            save_file({n: v.clone() for n, v in self._stored().items()}, folder / WEIGHTS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        stored = self._stored()
        for name, value in load_file(Path(resume_from_checkpoint) / WEIGHTS).items():
            stored[name].copy_(value)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))


class _Run(TrainerCallback):
    """Checkpoints by the clock and at SIGTERM, and the log as JSON Lines."""

    def __init__(self, save_seconds: float) -> None:
        self._save_seconds, self._saved = save_seconds, time.monotonic()
        self.stopping = Stopping()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.world_size > 1:  # the others would wait for one that stops or saves alone
            return
        if self.stopping.asked:
            control.should_training_stop = True
        if self.stopping.asked or time.monotonic() - self._saved > self._save_seconds:
            control.should_save = True
            self._saved = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:  # whole, since a resumed run has dropped lines
            lines = (
                json.dumps(row) + "\n" for row in state.log_history if "train_runtime" not in row
            )
            write_whole(Path(args.output_dir) / "log.jsonl", "".join(lines))


def fit_module(trainer: ModuleTrainer) -> None:
    """Train to the last step, from the run's last complete checkpoint if there is one.

    Args:
        trainer: Trainer.

    Raises:
        Terminated: If SIGTERM ends it; the current step is saved.
    """
    folder = trainer.folder
    found = [path for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").exists()]
    last = max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
    (run,) = (one for one in trainer.callback_handler.callbacks if isinstance(one, _Run))
    alone = trainer.args.world_size == 1
    try:
        heard = run.stopping.heard() if alone else contextlib.nullcontext()
        with storing(folder), heard, run.stopping.batch():
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    except Terminated:
        at, steps = trainer.state.global_step, trainer.settings.steps
        if at < steps:
            raise Terminated(f"after step {at} of {steps}") from None
    trainer.module.eval()


def epochs(
    lengths: Sequence[int], size: int, *, seed: int, bucket: int = 50
) -> Callable[[int], list[int]]:
    """Return a function from a batch's number to the row numbers of its batch.

    Each epoch is a new permutation from the seed. Rows of similar length share a batch (sorted
    inside groups of `bucket` batches), and the batches are shuffled again.

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

    return lambda number: plan(number // per_epoch)[number % per_epoch]


def steps_over(rows: int, size: int, passes: float) -> int:
    """Return the steps of some passes over rows.

    Args:
        rows: Number of rows.
        size: Rows per step of one process.
        passes: Number of passes.
    """
    return max(1, math.ceil(passes * rows / (size * process_count())))


def process_count() -> int:
    """Return the number of processes that share each step."""
    return int(os.environ.get("WORLD_SIZE", 1))


def first_process() -> bool:
    """Check whether this process is the first, which alone writes files."""
    return os.environ.get("RANK", "0") == "0"


def training_device(name: str | None) -> torch.device:
    """Return this process's device.

    Args:
        name: "cpu" or "cuda"; None for a GPU if there is one.

    Raises:
        InputError: For an unknown device, or a GPU with a number.
    """
    device = Options(device=name).resolved()[0]
    if device.type != "cuda":
        return device
    refuse_if(
        device.index not in (None, 0),
        "device",
        name,
        "cuda; choose a card with CUDA_VISIBLE_DEVICES",
    )
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


def device_of(module: nn.Module) -> torch.device:
    """Return the device that a module's parameters are on."""
    return next(module.parameters()).device


def full_precision(device: torch.device) -> torch.autocast:
    """Compute heads and losses, which are small but decisive, in float32 under autocast."""
    return torch.autocast(device.type, enabled=False)


def only_run(fit: Callable[Given, R]) -> Callable[Given, R]:
    """Lock the folder `out` of a training function, so that a second run in it is rejected.

    If several processes train one model, the first locks it. A folder that is still empty when the
    function raises is removed.
    """
    signature = inspect.signature(fit)

    @wraps(fit)
    def alone(*args: Given.args, **named: Given.kwargs) -> R:
        out = Path(signature.bind(*args, **named).arguments["out"])
        if not first_process():
            return fit(*args, **named)
        with storing(out), contextlib.suppress(FileExistsError):
            out.mkdir(parents=True, exist_ok=True)
        with only_writer(out):
            try:
                return fit(*args, **named)
            except BaseException:
                with contextlib.suppress(OSError):
                    out.rmdir()
                raise

    return alone


def begin(folder: Path, plan: Any, *parts: Iterable[Row]) -> None:
    """Start a run, or continue one that was started with the same plan and rows.

    Args:
        folder: Folder of the run.
        plan: Dataclass of training settings.
        *parts: Training rows, and held-out rows.

    Raises:
        InputError: Naming the field that differs from the run's.
    """
    if not first_process():
        return
    digest = hashlib.sha256()
    for rows in parts:
        for row in rows:
            digest.update(json.dumps(row).encode())
        digest.update(b"\n")
    fields = {**asdict(plan), "processes": process_count(), "rows": digest.hexdigest()}
    fields = json.loads(json.dumps(fields, default=str))
    path = folder / "plan.json"
    if path.exists() and any(folder.glob("checkpoint-*")):
        before = json.loads(path.read_text())
        for name, given in fields.items():
            refuse_if(
                before.get(name) != given,
                name,
                given,
                f"{before.get(name)!r}, with which the run in this folder was begun",
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(fields, indent=1, sort_keys=True) + "\n")
