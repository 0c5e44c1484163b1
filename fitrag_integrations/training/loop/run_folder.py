"""A run's folder: what it was begun with, and its log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fitrag_integrations.core.files import write_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.loop.checkpoints import step_of

Log = list[dict[str, Any]]


def begin(folder: Path, fields: Mapping[str, Any]) -> None:
    """Begin a run, or go on with one that was begun with the same fields.

    Of a run without a checkpoint nothing is kept, of another the log up to its checkpoint. Raises
    `InputError` naming the field that is not what it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan, log = folder / "plan.json", folder / "log.jsonl"
    at = step_of(folder / "checkpoint.safetensors")
    if not at:
        for leftover in (log, folder / "best.safetensors"):
            leftover.unlink(missing_ok=True)
    else:
        _refuse_other(plan, fields)
        rows = [row for row in read_log(log) if row["step"] <= at]
        write_whole(log, "".join(json.dumps(row) + "\n" for row in rows))
    write_whole(plan, json.dumps(fields, indent=1, sort_keys=True) + "\n")


def run_fields(plan: Any, processes: int, *parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a run depends on: the plan, the batches of a step, and a digest of all rows.

    `plan` is a dataclass with `accumulate`, the batches of each process; `parts` are the rows that
    are trained on and those that are not.
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


def _refuse_other(plan: Path, fields: Mapping[str, Any]) -> None:
    if not plan.exists():  # of an older version
        return
    before = json.loads(plan.read_text())
    for name, given in json.loads(json.dumps(fields)).items():
        if before.get(name) != given:
            allowed = f"{before.get(name)!r}, with which the run in this folder was begun"
            raise InputError.of(name, given=given, allowed=allowed)
