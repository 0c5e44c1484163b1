"""Know a question by its content, so that results of different days can be set side by side."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.errors import InputError

T = TypeVar("T")
SETS = ("set", "dataset")  # the fields that name a row's data set
SHOWN = 16  # hexadecimal digits of an id; among a million questions two agree once in 4e7 times


def question_id(question: str, answers: Iterable[str] = ()) -> str:
    """Hash a question with its gold answers, whose order does not matter."""
    return _digest([question, sorted(answers)])[:SHOWN]


def content_id(content: object) -> str:
    """Hash plain values, the keys of objects in any order."""
    return _digest(content)[:SHOWN]


def data_hash(rows: Sequence[Row]) -> str:
    """Hash rows with all their fields, in their order: SHA-256 in hexadecimal digits."""
    return _digest(list(rows))


def numbered(ids: Iterable[str]) -> list[str]:
    """Tell repeated questions apart: the second gets `#2`, the third `#3`."""
    seen: Counter[str] = Counter()
    found = []
    for each in ids:
        seen[each] += 1
        found.append(each if seen[each] == 1 else f"{each}#{seen[each]}")
    return found


def with_ids(made: Sequence[Row]) -> list[Row]:
    """Tell apart questions that one system was asked twice."""
    ids = numbered(f"{row['system']}\0{row['id']}" for row in made)
    return [{**row, "id": each.partition("\0")[2]} for row, each in zip(made, ids, strict=True)]


def set_of(row: Row) -> str:
    """Name a row's data set, the empty text where it does not."""
    return str(next((row[name] for name in SETS if row.get(name)), ""))


def each_row(rows: Iterable[Row], read: Callable[[Row], T], where: str = "") -> list[T]:
    """Read every row; raises `InputError` naming the first that lacks something."""
    made = []
    for place, row in enumerate(rows, start=1):
        try:
            made.append(read(row))
        except InputError as error:
            raise InputError(f"{where}row {place}: {error}") from error
    return made


def _digest(content: object) -> str:
    text = json.dumps(plain(content), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
