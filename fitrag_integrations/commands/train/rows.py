"""Read training rows, and report what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer

from fitrag_integrations.errors import InputError
from fitrag_integrations.training.rows import Labelled, labelled_row, passage_row, read_jsonl
from fitrag_integrations.types import Passage

T = TypeVar("T")


def objects(paths: Sequence[Path]) -> Iterator[dict[str, object]]:
    """Yield the objects of all files, in order."""
    return (row for path in paths for row in read_jsonl(path))


def pool_of(path: Path) -> list[Passage]:
    """Read a pool of passages."""
    return rows_as([path], passage_row)


def labelled(paths: Sequence[Path]) -> list[Labelled]:
    """Read labelled rows. Error rows and rows without passages are left out and reported.

    Raises `InputError` naming the file, the row and the label that is missing.
    """
    found, errors, empty = [], 0, 0
    for path in paths:
        for at, row in enumerate(read_jsonl(path), start=1):
            errors += row.get("error") is not None
            empty += row.get("error") is None and not row.get("passages")
            if row.get("error") is None and row.get("passages"):
                found.append(read_as(row, labelled_row, f"{path.name}, row {at}"))
    for count, kind in ((errors, "error rows"), (empty, "rows without passages")):
        if count:
            typer.echo(f"{count} {kind} left out", err=True)
    return found


def rows_as(paths: Sequence[Path], read: Callable[[dict[str, Any]], T]) -> list[T]:
    """Read every row; raises `InputError` naming the file, the row and the field that is wrong."""
    return [
        read_as(row, read, f"{path.name}, row {at}")
        for path in paths
        for at, row in enumerate(read_jsonl(path), start=1)
    ]


def read_as(row: dict[str, Any], read: Callable[[dict[str, Any]], T], place: str) -> T:
    """Read a row; raises `InputError` naming its `place` and the field that is wrong."""
    try:
        return read(row)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
