"""Run a verb over JSON Lines: rows in, the same rows with more fields out, in the same order.

Rows go through in chunks, so that the models see the questions of a whole chunk in one batch. Each
chunk is written before the next one starts, and a stopped run continues where its output ends. A
row that cannot be answered becomes an error row and the others go on.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from fitrag_integrations.commands import lines
from fitrag_integrations.commands.resume import Resumed, resume
from fitrag_integrations.commands.rows import Row, error_row, read_rows, written
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Traced, run_many

CHUNK = 16  # questions that share a model batch
T = TypeVar("T")
Advance: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Verb(Generic[T]):
    """Say what to do with a row: the flow that answers it, and the fields its end gives.

    `adds` names those fields. The flow raises `InputError` for a row that lacks something. An
    error row gets the fields of `empty` where it has none of that name, so that whoever reads the
    output finds them in every row.
    """

    flow: Callable[[Mapping[str, Any]], Flow[T]]
    fields: Callable[[Traced[T]], dict[str, Any]]
    adds: tuple[str, ...]
    empty: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """Count the rows of an output: all, those an earlier run had written, and error rows."""

    output: str
    rows: int
    resumed: int
    errors: int
    seconds: float


def run_batch(
    verb: Verb[Any], source: str, target: str, *, overwrite: bool = False, advance: Advance
) -> Summary:
    """Answer every row of `source` into `target`; `advance` hears how many are done.

    Raises `InputError` for a damaged input and for an output that holds other rows.
    """
    began = time.monotonic()
    rows = read_rows(lines.read_lines(source))
    done = Resumed()
    if target != lines.STREAM and Path(target).exists():
        if overwrite:
            Path(target).unlink()
        else:
            done, rows = resume(Path(target), rows, verb.adds)
    advance(done.rows)
    count, errors = done.rows, done.errors
    with lines.appending(target) as write:
        for chunk in chunks(rows, CHUNK):
            answered = [_outcome(verb, row, traced) for row, traced in _answered(verb, chunk)]
            write(b"".join(written(row) for row, _ in answered))
            count += len(chunk)
            errors += sum(failed for _, failed in answered)
            advance(len(chunk))
    return Summary(target, count, done.rows, errors, round(time.monotonic() - began, 3))


def check_names(source: str, target: str) -> None:
    """Raise `InputError` unless the input is there and the output may be written."""
    if source != lines.STREAM and (not Path(source).exists() or Path(source).is_dir()):
        raise InputError.of("input", given=source, allowed="a file that is there, or -")
    if target != lines.STREAM and not target.endswith((".jsonl", ".jsonl.gz")):
        raise InputError.of("output", given=target, allowed="a .jsonl or .jsonl.gz file, or -")
    if source != lines.STREAM and Path(source).resolve() == Path(target).resolve():
        raise InputError.of("output", given=target, allowed="another file than the input")


def _answered(verb: Verb[Any], chunk: list[Row]) -> Iterator[tuple[Row, Traced[Any] | Exception]]:
    traced = iter(run_many([verb.flow(row.given) for row in chunk if row.problem is None]))
    for row in chunk:
        yield row, next(traced) if row.problem is None else row.problem


def _outcome(
    verb: Verb[Any], row: Row, traced: Traced[Any] | Exception
) -> tuple[dict[str, Any], bool]:
    """Give the row to write, and whether it is an error row."""
    error = traced if isinstance(traced, Exception) else traced.error
    if error is not None:
        return {**row.given, **verb.empty, **error_row(row, error)}, True
    assert isinstance(traced, Traced)
    return {**row.given, **verb.fields(traced)}, False


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut items into lists of `size`, the last one maybe shorter."""
    rest = iter(items)
    return iter(lambda: list(itertools.islice(rest, size)), [])
