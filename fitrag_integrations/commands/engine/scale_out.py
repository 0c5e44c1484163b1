"""Answer rows in the workers of a Ray cluster, or in any other engine that maps batches.

Ray may answer twice; what is written is written once, by the process that was started, in the order
of the input and after the rows that are there. So the output is that of a run without Ray,
and either goes on where the other was stopped.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, cast

from fitrag_integrations.commands.engine.batch import (
    CHUNK,
    Answered,
    Answers,
    Verb,
    answer,
    lots,
)
from fitrag_integrations.commands.engine.options import Hardware, ModelOptions
from fitrag_integrations.commands.engine.rows import Line
from fitrag_integrations.commands.engine.verbs import Home, plan_of
from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import EngineError, FitRagError, refuse_if

VERBS = {
    "answer": "answer",
    "compress": "compress",
    "retrieve": "index",
    **dict.fromkeys(("gate", "read", "route", "score"), "judge"),
}
"""The verbs that can run there, each with its module."""
TRIES = 3  # more, of a lot whose worker dies over it
AHEAD = 2  # lots of each worker that are under way or wait for it
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # else each actor writes to standard error
}


class MapRows:
    """Answer batches of rows with a verb, for `map_batches` of Ray Data and its like.

    `verb` is one of `answer`, `compress`, `gate`, `read`, `retrieve`, `route` and `score`;
    `options` are those of the command line, such as `max_tokens=200`. Models are loaded with the
    first batch. Can be pickled before that.
    """

    def __init__(self, verb: str, **options: object) -> None:
        refuse_if(verb not in VERBS, "verb", verb, ", ".join(sorted(VERBS)))
        plan = Home(f"run.{VERBS[verb]}:{verb.capitalize()}Plan", "").plan_type()
        self._plan: Any = plan_of(plan, options)

    @cached_property
    def _verb(self) -> Verb:
        return cast(Verb, self._plan.verb())

    def __call__(self, batch: Any) -> Any:
        """Answer a pyarrow table or a list of rows; returns the same type.

        Rows keep their columns and gain those of the verb and `error`, the message of a failed row
        and null otherwise. Nulls count as missing values.
        """
        is_table = hasattr(batch, "to_pylist")
        rows: list[Row] = batch.to_pylist() if is_table else list(batch)
        packed = [Line({k: v for k, v in row.items() if v is not None}) for row in rows]
        lines = [line for lot in lots(packed, self._verb) for line in answer(self._verb, lot).lines]
        added = []
        for line in map(json.loads, lines):
            error = line.get("error")
            message = error.get("message") if isinstance(error, dict) else error
            added.append({**{name: line.get(name) for name in self._verb.adds}, "error": message})
        if not is_table:
            return [{**row, **fields} for row, fields in zip(rows, added, strict=True)]
        fields = type(batch).from_pylist(added)
        kept = batch.drop_columns([name for name in batch.column_names if name in added[0]])
        return type(batch).from_arrays(
            [*kept.columns, *fields.columns], [*kept.column_names, *fields.column_names]
        )


@dataclass(frozen=True)
class OnRay:
    """Answer rows in the workers of a Ray cluster, each of which loads the plan's models once.

    What the options name must be there for every worker. The cluster is the one of `RAY_ADDRESS` or
    of `ray start` on this machine, else one is started here and ends with the process. `workers`
    are as many as its GPUs, or its CPUs where it has none. A worker that dies is replaced and its
    lots answered anew; `EngineError` says where one died again and again over the same lot, and
    nothing of that lot is written.
    """

    plan: Any
    workers: int | None = None

    def __post_init__(self) -> None:
        require_extra("ray", extra="ray", feature="--engine ray")

    def answers(self, rows: Iterator[Line], done: int) -> Answers:
        """Answer lots in parallel, a few of each worker ahead, and yield them in order."""
        ray = _started()
        size, use = self._use(ray)
        kind = ray.remote(max_restarts=-1, max_task_retries=TRIES, **use)(_Worker)
        workers = cycle([kind.remote(self.plan, os.getcwd()) for _ in range(size)])
        first = islice(rows, CHUNK - done % CHUNK)  # the others are lots of a run in one go
        waiting = deque[Any]()
        for lot in chain(chunks(first, CHUNK), chunks(rows, CHUNK)):
            waiting.append(next(workers).answer.remote(lot))
            if len(waiting) >= AHEAD * size:
                yield partial(_get, ray, waiting.popleft())
        while waiting:
            yield partial(_get, ray, waiting.popleft())

    def _use(self, ray: Any) -> tuple[int, dict[str, float]]:
        """Return how many workers there are and what each takes of the cluster."""
        there = ray.cluster_resources()
        model = trait(self.plan, "model", ModelOptions)
        wanted = str((model or trait(self.plan, "hardware", Hardware) or Hardware()).device)
        gpus = 0 if wanted.startswith("cpu") else int(there.get("GPU", 0))
        size = self.workers or gpus or max(1, int(there.get("CPU", 1)))
        return size, {"num_cpus": 1, "num_gpus": min(1.0, gpus / size)}


class _Worker:
    """Answer lots in a worker. A failure to load is returned, not raised: Ray would retry."""

    def __init__(self, plan: Any, folder: str) -> None:
        self._plan, self._folder = plan, folder

    @cached_property
    def verb(self) -> Verb:
        """The verb, loaded from the folder where its relative paths start, if it is here."""
        if Path(self._folder).is_dir():
            os.chdir(self._folder)
        return cast(Verb, self._plan.verb())

    def answer(self, lot: list[Line]) -> Answered | str:
        """Return the answers, or why there are none."""
        try:
            return answer(self.verb, lot)
        except FitRagError as error:
            return str(error)


def _get(ray: Any, waited: Any) -> Answered:
    try:
        answered: Answered | str = ray.get(waited)
    except ray.exceptions.RayError as error:
        *_, said = ["", *str(error).strip().splitlines()]
        raise EngineError(
            f"--engine ray: {type(error).__name__}: {said}; what is written stays, the same "
            "command goes on"
        ) from error
    if isinstance(answered, str):
        raise EngineError(answered)
    return answered


def _started() -> Any:
    """Return Ray, connected to the cluster that was started for all, or with one of our own."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = importlib.import_module("ray")
    if not ray.is_initialized():
        heard = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # Ray has no kind of its own for a cluster that does not start
            raise EngineError(f"--engine ray: {error}") from error
        if threading.current_thread() is threading.main_thread():  # Ray would end us at once
            signal.signal(signal.SIGTERM, heard)
    return ray
