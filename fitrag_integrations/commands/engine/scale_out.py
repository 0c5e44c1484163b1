"""Answer rows in the workers of a Ray cluster, or in any other engine that maps batches.

Ray answers at least once; what is written is written once, by the process that was started, in the
order of the input and after the rows that are there. So the output is that of a run without Ray,
and either goes on where the other was stopped.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias, cast

from fitrag_integrations.commands.engine.batch import (
    CHUNK,
    Answered,
    Answers,
    AnyVerb,
    Here,
    answer,
    lots,
)
from fitrag_integrations.commands.engine.options import Hardware, ModelOptions
from fitrag_integrations.commands.engine.progress import RowsPlan
from fitrag_integrations.commands.engine.rows import Line, described
from fitrag_integrations.commands.engine.verbs import Home, plan_of
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import EngineError, FitRagError, InputError, refuse_if

VERBS = {
    "answer": "answer",
    "compress": "compress",
    "retrieve": "index",
    **dict.fromkeys(("gate", "read", "route", "score"), "judge"),
}
"""The verbs that can run there, each with its module."""
Table: TypeAlias = Any  # of pyarrow, or a list of rows
TRIES = 3  # more, of a lot whose worker dies over it
NEEDS = ("ray", "pyarrow", "pandas")  # what `ray[data]` brings
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # else each actor writes to standard error
}


class MapRows:
    """Answer batches of rows with a verb, for `map_batches` of Ray Data and its like.

    `verb` is one of `answer`, `compress`, `gate`, `read`, `retrieve`, `route` and `score`, or a
    plan of your own; `options` are those of the command line, as `max_tokens=200`. Models are
    loaded with the first batch. Can be pickled before that.
    """

    def __init__(self, verb: str | type[Any], **options: object) -> None:
        if isinstance(verb, str):
            refuse_if(verb not in VERBS, "verb", verb, ", ".join(sorted(VERBS)))
            verb = Home(f"run.{VERBS[verb]}:{verb.capitalize()}Plan", "").plan_type()
        self._plan: Any = plan_of(verb, options)

    @cached_property
    def _verb(self) -> AnyVerb:
        return cast(AnyVerb, self._plan.verb())

    def __call__(self, batch: Table) -> Table:
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

    The file of rows, and what the options name, must be there for every worker. The cluster is the
    one of `RAY_ADDRESS` or of `ray start` on this machine, else one is started here and ends with
    the process. `workers` are as many as its GPUs, or its CPUs where it has none. A worker that
    dies is replaced and its lots answered anew; `EngineError` names a lot over which one died
    again and again, and nothing of that lot is written.
    """

    plan: RowsPlan
    source: str
    workers: int | None = None

    def __post_init__(self) -> None:
        allowed = "a file to read, which workers can read too"
        refuse_if(self.source == jsonl.STREAM, "--engine ray: input", self.source, allowed)
        for module in NEEDS:
            require_extra(module, extra="ray", feature="--engine ray")

    def owned(self) -> Collection[str]:
        """Return the fields that the verb adds or drops, from a worker that loads it."""
        ray = _started()
        size, use = self._use(ray)
        found, failed = ray.get(ray.remote(**use)(_owned).remote(self.plan, os.getcwd()))
        if failed is not None:
            raise EngineError(failed)
        return tuple(found)

    def answers(self, rows: Iterator[Line], source: Iterable[Line], done: int) -> Answers:
        """Process batches in parallel, and yield them in order."""
        ray = _started()
        data = importlib.import_module("ray.data")
        size, use = self._use(ray)
        stream = _stream(partial(_read, source, done))
        rows_read = data.read_datasource(stream, override_num_blocks=1, num_cpus=0)
        with warnings.catch_warnings():  # the name for how often to try is gone by Ray 2.64
            warnings.simplefilter("ignore")
            answered = rows_read.map_batches(
                _Answering,
                fn_constructor_args=(self.plan, os.getcwd()),
                batch_size=1,
                batch_format="pyarrow",
                compute=data.ActorPoolStrategy(size=size),
                max_task_retries=TRIES,
                **use,
            )
        found, number = iter(answered.iter_rows()), 0
        while True:
            yield partial(_next, found, number)
            number += 1

    def _use(self, ray: Any) -> tuple[int, dict[str, float]]:
        """Return how many workers there are and what each takes of the cluster."""
        there = ray.cluster_resources()
        model = trait(self.plan, "model", ModelOptions)
        chosen = model or trait(self.plan, "hardware", Hardware) or Hardware()
        wanted = str(chosen.device)
        gpus = 0 if wanted.startswith("cpu") else int(there.get("GPU", 0))
        size = self.workers or gpus or max(1, int(there.get("CPU", 1)))
        return size, {"num_cpus": 1, "num_gpus": min(1.0, gpus / size)}


class _Answering:
    """Answer lots in a worker. A failure to load is returned, not raised: Ray would retry."""

    def __init__(self, plan: RowsPlan, folder: str) -> None:
        self._plan, self._folder = plan, folder

    @cached_property
    def verb(self) -> AnyVerb:
        """The verb, loaded from the folder where its relative paths start, if it is here."""
        if Path(self._folder).is_dir():
            os.chdir(self._folder)
        return self._plan.verb()

    def __call__(self, table: Table) -> Table:
        (packed,) = table.to_pylist()
        answered, failed = Answered([], []), packed["failed"]
        try:
            if failed is None:
                columns = (packed[name] for name in ("given", "problems", "kept"))
                lot = [
                    Line(json.loads(given), None if problem is None else InputError(problem), kept)
                    for given, problem, kept in zip(*columns, strict=True)
                ]
                answered = answer(self.verb, lot)
        except FitRagError as error:
            failed = str(error)
        packed = {"lot": packed["lot"], "failed": failed}
        return _table(**packed, lines=answered.lines, reasons=answered.reasons)


def _owned(plan: RowsPlan, folder: str) -> tuple[Collection[str], str | None]:
    try:
        return Here(_Answering(plan, folder).verb).owned(), None
    except FitRagError as error:
        return (), str(error)


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
    context = importlib.import_module("ray.data").DataContext.get_current()
    context.execution_options.preserve_order = True
    context.target_max_block_size = 1  # a block a lot
    context.enable_progress_bars = context.print_on_execution_start = False
    return ray


def _stream(read: Callable[[], Iterator[Table]]) -> Any:
    """Make a source of Ray Data that one task reads, its blocks going on as they come."""
    data, block = map(importlib.import_module, ("ray.data", "ray.data.block"))
    unknown = dict.fromkeys(("num_rows", "size_bytes", "input_files", "exec_stats"))

    class Lots(data.Datasource):  # type: ignore[misc, name-defined]
        def get_read_tasks(self, *how: object, **more: object) -> list[Any]:
            return [data.ReadTask(read, block.BlockMetadata(**unknown))]

        def estimate_inmemory_data_size(self) -> None:
            return None

    return Lots()


def _read(source: Iterable[Line], done: int) -> Iterator[Table]:
    """Read lots of rows behind those that are done, in a worker."""
    number, rows = 0, islice(source, done, None)
    try:
        first = islice(rows, CHUNK - done % CHUNK)  # the others are lots of a run in one go
        for number, lot in enumerate(chain(chunks(first, CHUNK), chunks(rows, CHUNK))):
            yield _packed(number, lot)
    except FitRagError as error:
        yield _packed(number + 1, [], str(error))


def _packed(number: int, lot: list[Line], failed: str | None = None) -> Table:
    problems = [row.problem and described(row.problem)["message"] for row in lot]
    given, kept = [jsonl.dump(row.given) for row in lot], [row.kept for row in lot]
    return _table(lot=number, given=given, problems=problems, kept=kept, failed=failed)


def _table(**values: object) -> Table:
    """Make a table of one row, whose types do not hang on what is in it."""
    pa = importlib.import_module("pyarrow")
    kinds = {
        "lot": pa.int64(),
        "failed": pa.string(),
        **dict.fromkeys(("given", "kept", "lines"), pa.list_(pa.binary())),
        **dict.fromkeys(("problems", "reasons"), pa.list_(pa.string())),
    }
    return pa.table({name: pa.array([value], kinds[name]) for name, value in values.items()})


def _next(found: Iterator[Mapping[str, Any]], number: int) -> Answered | None:
    """Wait for a lot; a second copy of one before it is passed over."""
    errors = importlib.import_module("ray.exceptions")
    try:
        packed = next((one for one in found if one["lot"] >= number), None)
    except errors.RayError as error:
        *_, said = ["", *str(error).strip().splitlines()]
        what = f"--engine ray: {type(error).__name__}: {said}"
        raise EngineError(f"{what}; what is written stays, the same command goes on") from error
    if packed is None:
        return None
    if packed["failed"] is not None or packed["lot"] != number:
        raise EngineError(packed["failed"] or f"--engine ray: lot {number} is missing")
    return Answered(packed["lines"], packed["reasons"])
