"""Rows to calibrate or judge a gate on: labelled questions, with the gate's scores or to be scored.

For `fitrag calibrate gate` and `fitrag evaluate gate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, chunks
from fitrag_integrations.commands.engine.options import ModelOptions
from fitrag_integrations.commands.run.gate import gate_verb
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.flow import run_many
from fitrag_integrations.ports import Gate


@runtime_checkable
class Named(Protocol):
    """Have a name."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class Writing(Protocol):
    """Be a gate that has drafts written."""

    @property
    def drafter(self) -> object: ...
    @property
    def draft_tokens(self) -> int: ...


def is_scored(row: Row) -> bool:
    """Say whether a row brings a gate's score."""
    return row.get("p_known") is not None or row.get("score") is not None


def outcomes_of(rows: Sequence[Row], gate: ModelOptions) -> tuple[Outcomes, Gate | None]:
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


def check_drafter(rows: Sequence[Row], gate: Gate | None, judged: str) -> None:
    """Raise `InputError` where the gate would write drafts in the place of the model judged."""
    if not isinstance(gate, Writing) or not isinstance(gate.drafter, Named):
        return
    name, writes = gate.drafter.name, any(row.get("draft") is None for row in rows)
    if gate.draft_tokens and writes and judged not in ("", name):
        allowed = f"drafts of {judged!r}, or --fitted-for {name}"
        raise InputError.of("draft", given=f"rows that leave it to {name!r}", allowed=allowed)


def gate_manifest(folder: Path) -> Row:
    """Read a gate's `model.json`; raises `InputError` where the folder holds something else."""
    from fitrag_integrations.models.runtime.folder import read_manifest

    kind = models.model_kind(folder)
    if kind not in models.GATES:
        holds = "no model.json" if kind is None else f"a model of kind {kind!r}"
        allowed = f"the folder of a gate ({', '.join(models.GATES)}); this one holds {holds}"
        raise InputError.of("--model", given=str(folder), allowed=allowed)
    return read_manifest(folder, "model.json", kind=kind)
