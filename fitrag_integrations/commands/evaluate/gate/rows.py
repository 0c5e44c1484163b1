"""Rows to calibrate or judge a gate on: labelled questions, with the gate's scores or to be scored.

For `fitrag calibrate gate` and `fitrag evaluate gate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, chunks
from fitrag_integrations.commands.engine.options import ModelOptions
from fitrag_integrations.commands.engine.rows import Row, read_rows
from fitrag_integrations.commands.run.gate import gate_verb
from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.flow import run_many


def labelled_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Read every row; raises `InputError` naming the file and line of a damaged one."""
    return [_sound(row, path) for path in paths for row in _rows(path)]


def is_scored(row: Mapping[str, Any]) -> bool:
    """Say whether a row brings a gate's score."""
    return row.get("p_known") is not None or row.get("score") is not None


def outcomes_of(rows: Sequence[Mapping[str, Any]], gate: ModelOptions) -> tuple[Outcomes, Any]:
    """Take the rows' own scores if all have one; else the gate scores all of them.

    Scores of two gates are never mixed. Gives the gate as well, None where it was not loaded.
    """
    if all(map(is_scored, rows)):
        return Outcomes.of(rows), None
    loaded = models.load_gate(gate)
    verb = gate_verb(loaded, threshold=0.5)  # any will do: only the scores are wanted
    told = [
        answer.value.decision.p_known
        for chunk in chunks(rows, CHUNK)
        for answer in run_many([verb.flow(row) for row in chunk])
    ]
    return Outcomes.of([{**row, "p_known": p} for row, p in zip(rows, told, strict=True)]), loaded


def check_drafter(rows: Sequence[Mapping[str, Any]], gate: Any, judged: str) -> None:
    """Raise `InputError` where the gate would write drafts in the place of the model judged."""
    name = getattr(getattr(gate, "drafter", None), "name", None)
    writes = bool(getattr(gate, "draft_tokens", 0)) and any(r.get("draft") is None for r in rows)
    if writes and judged and isinstance(name, str) and name != judged:
        allowed = f"drafts of {judged!r}, or --fitted-for {name}"
        raise InputError.of("draft", given=f"rows that leave it to {name!r}", allowed=allowed)


def gate_manifest(folder: Path) -> dict[str, Any]:
    """Read a gate's `model.json`; raises `InputError` where the folder holds something else."""
    from fitrag_integrations.models.runtime.folder import read_manifest

    kind = models.model_kind(folder)
    if kind not in models.GATES:
        holds = "no model.json" if kind is None else f"a model of kind {kind!r}"
        allowed = f"the folder of a gate ({', '.join(models.GATES)}); this one holds {holds}"
        raise InputError.of("--model", given=str(folder), allowed=allowed)
    return read_manifest(folder, "model.json", kind=kind)


def _rows(path: Path) -> Sequence[Row]:
    if not path.is_file():
        raise InputError.of("rows", given=str(path), allowed="a .jsonl or .jsonl.gz file")
    return list(read_rows(jsonl.read_lines(str(path))))


def _sound(row: Row, path: Path) -> dict[str, Any]:
    if row.problem is not None:
        line = f"{path}, line {row.given['line']}"
        raise InputError.of(line, given=row.given["raw"], allowed="a JSON object")
    return row.given
