"""Write of each question what a later look at how things go needs: a row of plain values.

`retrieve` and `p_known` in [0, 1] are the gate's, `score` that of the best excerpt, `tokens` the
estimate of what all excerpts cost in a prompt. None is what a method does not tell.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

from fitrag_integrations.core.jsonl import appending, dump
from fitrag_integrations.core.record import Row
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Context


def trace_row(context: Context) -> dict[str, Any]:
    """Sum up what a method did for a question."""
    decision, excerpts = context.decision, context.excerpts
    best = max((excerpt.score for excerpt in excerpts), default=0.0)
    return {
        "question": context.question,
        "method": context.method,
        "retrieve": decision is None or decision.retrieve,
        "p_known": None if decision is None else decision.p_known,
        "action": None if context.action is None else context.action.value,
        "score": float(best) or None,
        "tokens": approximate_tokens(render_excerpts(excerpts)) if excerpts else 0,
        "notes": list(context.notes),
    }


class TraceFile:
    """Append rows to a file of JSON Lines, from any thread; without `questions` none is named.

    A row that cannot be written raises `InputError`.
    """

    def __init__(self, path: str | Path, *, questions: bool = True) -> None:
        self._path, self._questions, self._one = str(path), questions, Lock()

    def add(self, row: Row) -> None:
        """Write a row of `trace_row`."""
        left_out = () if self._questions else ("question",)
        kept = {name: value for name, value in row.items() if name not in left_out}
        with self._one, appending(self._path) as write:
            write(dump(kept))
