"""Read training rows, and report what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from fitrag_integrations.evaluation.rows import each_row
from fitrag_integrations.training.rows import Labelled, labelled_row, read_jsonl

T = TypeVar("T")


def objects(paths: Sequence[Path]) -> Iterator[dict[str, object]]:
    """Yield the objects of all files, in order."""
    return (row for path in paths for row in read_jsonl(path))


def labelled(paths: Sequence[Path]) -> list[Labelled]:
    """Read labelled rows. Error rows and rows without passages are left out and reported.

    Raises `InputError` naming the file, the row and the label that is missing.
    """
    found, left = list[Labelled](), Counter[str]()

    def read(row: Mapping[str, object]) -> None:
        if row.get("error") is not None:
            left["error rows"] += 1
        elif not row.get("passages"):
            left["rows without passages"] += 1
        else:
            found.append(labelled_row(row))

    rows_as(paths, read)
    for kind in ("error rows", "rows without passages"):
        if left[kind]:
            typer.echo(f"{left[kind]} {kind} left out", err=True)
    return found


def rows_as(paths: Sequence[Path], read: Callable[[Mapping[str, object]], T]) -> list[T]:
    """Read every row; raises `InputError` naming the file, the row and the field that is wrong."""
    return [row for path in paths for row in each_row(read_jsonl(path), read, f"{path.name}, ")]
