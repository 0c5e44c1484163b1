"""Run a verb over JSON Lines: rows in, the same rows with more fields out, in the same order.

Rows go through in chunks, so that the models see the questions of a whole chunk in one batch. Each
chunk is written before the next one starts, and a stopped run continues where its output ends. A
row that cannot be answered becomes an error row and the others go on.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from fitrag_integrations.commands.engine.outputs import resume
from fitrag_integrations.commands.engine.rows import Line, described, is_finite, reason_of
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.progress import Stopping, Terminated
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow, Traced, run_many

EXHAUSTED = (errno.EMFILE, errno.ENFILE)  # of the machine, which every row would meet
CHUNK = 16  # questions that share a model batch
Advance: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Verb:
    """What to run on a row: the flow, which ends in the fields it adds.

    `adds` names those fields; `fields` reads them off a run that ends in something else. The flow
    raises `InputError` for a row that lacks something, and `Terminated` to have the run end before
    its row. An error row gets the fields of `empty` where it has none of that name, so that whoever
    reads the output finds them in every row. Fields in `drops` are read and not written. Rows that
    together weigh `lot` share the models' batches.
    """

    flow: Callable[[Row], Flow[Any]]
    adds: tuple[str, ...]
    empty: Row = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    lot: int = CHUNK
    weight: Callable[[Line], int] = lambda row: 1
    fields: Callable[[Traced[Any]], Row] = attrgetter("value")


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a run: the rows of its output, those an earlier run had written, why rows failed,
    how many of its answers are empty, and whether it was asked to stop.
    """

    output: str
    rows: int
    resumed: int
    reasons: Counter[str]
    seconds: float
    stopped: bool
    empty: int

    @property
    def errors(self) -> int:
        """Number of error rows."""
        return self.reasons.total()


@dataclass(frozen=True, slots=True)
class Answered:
    """Output lines of a batch of rows, and the reasons of those that failed.

    `ended` is set if a flow ended the run before one of its rows; `empty` counts blank answers.
    """

    lines: list[bytes]
    reasons: list[str]
    empty: int = 0
    ended: bool = False


Answers: TypeAlias = Generator[Callable[[], Answered | None], None, None]
"""Calls that give one lot after the other, in the order of the rows; None says there is no more."""


Engine: TypeAlias = Callable[[Iterator[Line], int], Answers]
"""Answers rows, in this process or in others; the number is that of the rows before them."""


def here(verb: Verb, rows: Iterator[Line], done: int) -> Answers:
    """Answer rows with a verb in this process; a lot is read before each call."""
    for lot in lots(rows, verb, done):
        yield partial(answer, verb, lot)


def run_batch(
    engine: Engine, rows: Iterable[Line], target: str, *, advance: Advance, stopping: Stopping
) -> Done:
    """Answer every row that is not in `target` yet; `advance` hears how many are done.

    Raises `InputError` for a damaged input and for an output that holds other rows.
    """
    began = time.monotonic()
    earlier, reasons, rows = 0, Counter[str](), iter(rows)
    if target != jsonl.STREAM and Path(target).exists() and Path(target).stat().st_size:
        earlier, reasons = resume(Path(target), rows)
    advance(earlier)
    count, answers, empty = earlier, engine(rows, earlier), 0
    written = stopping.says  # what else a stopped run keeps
    stopping.says = lambda: (
        f"asked to stop, which waits for the batch under way; {count} rows{written()} are written"
    )
    with (
        jsonl.appending(target) as write,
        contextlib.closing(answers),
        contextlib.suppress(Terminated),
    ):
        stopped = True  # unless all rows are reached
        for call in answers:
            with stopping.batch():
                answered = call()
                if answered is None:
                    break
                write(b"".join(answered.lines))
                count += len(answered.lines)
                reasons.update(answered.reasons)
                empty += answered.empty
                advance(len(answered.lines))
                if answered.ended:
                    raise Terminated
        stopped = False
    return Done(target, count, earlier, reasons, round(time.monotonic() - began, 3), stopped, empty)


def answer(verb: Verb, lot: list[Line]) -> Answered:
    """Answer a lot of rows, up to the one whose flow had the run end."""
    flows = iter(run_many([verb.flow(row.given) for row in lot if row.problem is None]))
    lines, reasons, empty = list[bytes](), list[str](), 0
    for row in lot:
        traced = None if row.problem is not None else next(flows)
        error = row.problem if traced is None else traced.error
        if isinstance(error, Terminated):
            return Answered(lines, reasons, empty, ended=True)
        if error is not None and getattr(error, "errno", None) in EXHAUSTED:
            raise error
        given = {name: value for name, value in row.given.items() if name not in verb.drops}
        if traced is not None and error is None:
            fields = verb.fields(traced)
            try:
                lines.append(jsonl.dump({**given, **fields}))
                empty += fields.get("answer") == ""
                continue
            except ValueError:
                names = ", ".join(name for name, value in fields.items() if not is_finite(value))
                error = InputError.of(names, given="NaN or Infinity", allowed="numbers JSON has")
        assert error is not None
        failed = {**given, "error": described(error)}
        lines.append(jsonl.dump({**given, **verb.empty, **failed}))
        reasons.append(reason_of(failed["error"]))
    return Answered(lines, reasons, empty)


def check_names(source: str, target: str) -> None:
    """Raise `InputError` unless the input is there and the output may be written."""
    is_file = Path(source).exists() and not Path(source).is_dir()
    piped = source == jsonl.STREAM
    if not piped and not is_file:
        raise InputError.missing("Input file", source)
    is_row_file = target.endswith((".jsonl", ".jsonl.gz")) and not Path(target).is_dir()
    refuse_if(
        target != jsonl.STREAM and not is_row_file,
        "output",
        target,
        "a .jsonl or .jsonl.gz file, or -",
    )
    refuse_if(
        not piped and Path(source).resolve() == Path(target).resolve(),
        "output",
        target,
        "another file than the input",
    )


def lots(rows: Iterable[Line], verb: Verb, done: int = 0) -> Iterator[list[Line]]:
    """Cut rows into lots that share the models' batches, and so the last digits of their numbers.

    Behind `done` rows the first is shorter, for the others to be those of a run in one go.
    """
    lot, weighs = list[Line](), done % verb.lot
    for row in rows:
        lot.append(row)
        weighs += verb.weight(row)
        if weighs >= verb.lot:
            yield lot
            lot, weighs = [], 0
    if lot:
        yield lot
