"""Files of a run: its plan and log, the last checkpoint, and the best weights so far.

A checkpoint holds weights, the optimizer's state and the step, as safetensors. The seed of every
batch's dropout follows from its number, so there is no state of a random generator to keep.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fitrag_integrations.core.files import only_writer, replacing, storing, write_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, TrainingError

Given = ParamSpec("Given")
Result = TypeVar("Result")
RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")  # torch's, MPI's


def only_run(fit: Callable[Given, Result]) -> Callable[Given, Result]:
    """Lock the folder `out` of a function that trains, so that a second run in it is refused.

    Of several processes that train one model the first locks it. A folder that is still empty
    when the function raises is removed.
    """
    signature = inspect.signature(fit)

    @wraps(fit)
    def alone(*args: Given.args, **named: Given.kwargs) -> Result:
        out = Path(signature.bind(*args, **named).arguments["out"])
        if any(os.environ.get(name, "0") != "0" for name in RANKS):
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


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    at: int,
    settings: Mapping[str, object],
) -> None:
    """Write a checkpoint; a run killed meanwhile keeps the last one whole.

    Args:
        path: File to write.
        module: Module whose trained weights are stored.
        optimizer: Optimizer whose state is stored.
        at: Number of steps taken.
        settings: Loop settings, stored for the reader.
    """
    names = _names(module)
    state: dict[str, Tensor] = {
        f"{key}/{name}": value.float().clone()
        for p, name in names.items()
        for key, value in optimizer.state[p].items()
    }
    state |= {f"weight/{name}": p.detach().clone() for p, name in names.items()}
    with replacing(path) as beside:
        save_file(state, beside, metadata={"step": str(at), "settings": json.dumps(settings)})


def load_checkpoint(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore weights and the optimizer's state from a checkpoint.

    Args:
        path: File of `save_checkpoint`.
        module: Module, changed in place.
        optimizer: Optimizer, changed in place.

    Returns:
        Number of steps taken; 0 without a checkpoint.
    """
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
    return int(_metadata(path).get("step", 0))


def _metadata(path: Path) -> dict[str, str]:
    """Read what was stored beside the weights; nothing where there is no file."""
    if not path.exists():
        return {}
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata())


def _names(module: nn.Module) -> dict[nn.Parameter, str]:
    return {p: name for name, p in module.named_parameters() if p.requires_grad}


@dataclass(frozen=True, slots=True)
class Best:
    """Store of the trained weights with the lowest held-out loss; of equal ones the earliest.

    Args:
        module: Module whose weights are kept.
        path: File to write.
        loss: Held-out loss.
        writes: Whether this process writes; only one of several does.
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
        lowest = float(_metadata(self.path).get("loss", math.inf))
        if self.writes and value < lowest:
            kept = {name: p.detach().clone() for p, name in _names(self.module).items()}
            with replacing(self.path) as beside:
                save_file(kept, beside, metadata={"loss": str(value)})
        return {"held_out": value}

    def restore(self) -> None:
        """Restore the best weights."""
        saved = load_file(self.path)
        with torch.no_grad():
            for parameter, name in _names(self.module).items():
                parameter.copy_(saved[name])


Log = list[dict[str, Any]]


def begin(folder: Path, fields: Mapping[str, object]) -> None:
    """Begin a run, or continue one that was begun with the same fields.

    Without a checkpoint the folder's earlier files are dropped, else the log is kept up to it.

    Args:
        folder: Folder of the run.
        fields: What the run depends on, from `run_fields`.

    Raises:
        InputError: Naming the field that differs from the run's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan, log = folder / "plan.json", folder / "log.jsonl"
    at = step_of(folder / "checkpoint.safetensors")
    if not at:
        for leftover in (log, folder / "best.safetensors"):
            leftover.unlink(missing_ok=True)
    else:
        before = json.loads(plan.read_text()) if plan.exists() else {}
        for name, given in json.loads(json.dumps(fields)).items():
            if before and before.get(name) != given:  # older versions wrote no plan
                allowed = f"{before.get(name)!r}, with which the run in this folder was begun"
                raise InputError.of(name, given=given, allowed=allowed)
        rows = [row for row in read_log(log) if row["step"] <= at]
        write_whole(log, "".join(json.dumps(row) + "\n" for row in rows))
    write_whole(plan, json.dumps(fields, indent=1, sort_keys=True) + "\n")


def run_fields(plan: Any, processes: int, *parts: Iterable[Row]) -> dict[str, Any]:
    """Return what a run depends on: the plan, the batches of a step, and a digest of all rows.

    Args:
        plan: Dataclass with `accumulate`, the batches of each process.
        processes: Number of processes.
        *parts: Rows that are trained on, and those that are not.
    """
    fields = asdict(plan)
    fields["batches a step"] = fields.pop("accumulate") * processes
    digest = hashlib.sha256()
    for rows in parts:
        for row in rows:
            digest.update(json.dumps(row).encode())
        digest.update(b"\n")
    return {**fields, "rows": digest.hexdigest()}


def read_log(path: Path) -> Log:
    """Read a run's log, in order of steps; a last line that was cut short is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
