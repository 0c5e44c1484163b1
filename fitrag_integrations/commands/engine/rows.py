"""Read rows of JSON Lines, and say what is wrong with one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_is, check_text
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.record import Row, check_mapping
from fitrag_integrations.errors import InputError, refuse_if, shown
from fitrag_integrations.evaluation.rows import each_row
from fitrag_integrations.methods.metadata import title_in
from fitrag_integrations.training.rows import Labelled, labelled_row, read_jsonl
from fitrag_integrations.types import Passage

RAW_SHOWN = 200
_PLACE = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its object, or what replaces it and the `problem`."""

    given: Row
    problem: Exception | None = None


def read_rows(lines: Iterable[bytes]) -> Iterator[Line]:
    """Parse lines; blank ones are no rows. `line` of a bad row counts from 1, blank ones too."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Line(jsonl.parse(line, first=number == 1))
        except (ValueError, RecursionError) as error:  # also bad UTF-8, and too deep a nesting
            raw = line.decode("utf-8", errors="replace").strip()
            yield Line({"line": number, "raw": raw[:RAW_SHOWN]}, error)


def described(error: Exception) -> dict[str, str]:
    """Return an error as plain text; an `InputError` in its parts too."""
    message = str(error)
    if isinstance(error, InputError) and error.field:
        return {
            "field": error.field,
            "given": shown(error.given),
            "allowed": error.allowed,
            "message": message,
        }
    named = isinstance(error, InputError | json.JSONDecodeError)
    return {"message": message if named else f"{type(error).__name__}: {message}"}


def reason_of(error: object) -> str:
    """Return the message of an error row's `error`, with the place in a list left out."""
    return _PLACE.sub("[]", str(error.get("message") if isinstance(error, Mapping) else error))


def is_finite(value: object) -> bool:
    """Check whether a value can be written as JSON, all numbers in it finite."""
    try:
        jsonl.dump({"value": value})
    except ValueError:
        return False
    return True


def question_of(row: Row) -> str:
    """Return the question; raises `InputError` unless it is a string that is not blank."""
    return check_text("question", row.get("question"), blank=False)


def passages_of(row: Row, *, blank: bool = False) -> list[Passage]:
    """Return the passages, each with its place in the list as `id`, so that none hides another.

    `blank` allows passages without text, for what leaves them out. Raises `InputError` naming the
    first that is wrong: `passages[3].text`.
    """
    given: Any = row.get("passages")
    refuse_if(
        not isinstance(given, list) or not given,
        "passages",
        given,
        "a list of at least one text or object with a text",
    )
    return [_passage(i, passage, blank) for i, passage in enumerate(given)]


def _passage(at: int, given: object, blank: bool) -> Passage:
    if isinstance(given, str):
        return Passage(str(at), check_text(f"passages[{at}]", given, blank=blank))
    given = check_is(f"passages[{at}]", given, dict, "a text or an object with one")
    text = check_text(f"passages[{at}].text", given.get("text"), blank=blank)
    title = given.get("title")
    if title is None:
        inner = check_mapping(f"passages[{at}].metadata", given.get("metadata") or {})
        title = title_in({**given, **inner})
    return Passage(str(at), text, check_text(f"passages[{at}].title", title))


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
