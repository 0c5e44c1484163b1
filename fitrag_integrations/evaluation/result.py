"""The file of an evaluation: one JSON document to read, to draw, to report on and to compare.

Every `fitrag evaluate` command writes a `Result`; `compare` reads two of them, and `report` turns
any number into a page. Neither needs the model or the rows again. Questions are identified by a
hash of their content, so that results of different days can be paired.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

from fitrag_integrations.core.checks import Checked, Texts, check_many, check_text
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Record, Row, check_mapping, plain
from fitrag_integrations.errors import InputError, refuse_if

SCHEMA = 1
KINDS = ("answers", "rerank", "gate", "route", "compress", "methods", "compare")
DRAWN = ("line", "points", "bar", "histogram")
SUFFIXES = (".json", ".json.gz")
Series: TypeAlias = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Plot(Record):
    """Numbers of one drawing.

    Args:
        name: Name of the drawing.
        x: Name of the axis across.
        y: Name of the axis up.
        series: Points `[x, y]` by name, in the order in which a line joins them.
        kind: "line", "points" (nothing joins them), "bar" (x is a text, the same ones in every
            series) or "histogram" (x is the left edge of a bin, all bins equally wide, y how many
            fall into it).
        levels: Named heights for horizontal lines to compare with.
        marks: Named points `(x, y)` such as the threshold in use.

    Raises:
        InputError: For another kind.
    """

    name: str
    x: str
    y: str
    series: Series
    kind: str = "line"
    levels: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_if(self.kind not in DRAWN, "Plot.kind", self.kind, ", ".join(DRAWN))
        check_text("Plot.name", self.name, blank=False)
        check_mapping("Plot.series", self.series)


def check_rows(field: str, rows: Iterable[object]) -> tuple[Row, ...]:
    """Check for rows of a table, and make them plain values."""
    return tuple(plain(check_mapping(f"{field}[{i}]", row)) for i, row in enumerate(rows))


Rows: TypeAlias = Annotated[Sequence[Row], check_rows]


@dataclass(frozen=True, slots=True)
class Result(Record, Checked):
    """Outcome of one evaluation as plain values.

    `figures` are the rows of its table: `figure` and `value`, and where they are known `low` and
    `high` (the interval of the value, at 0.95), `difference` to the first system with
    `difference_low`, `difference_high` and McNemar's `p`, `questions` (how many it is over), and
    what the figure is of: `set`, `system`, `order`. A row of `methods` is a whole line of that
    table instead. Shares and accuracies are in [0, 1], and what is not defined is None.

    `per_question` has a row for each question and each system asked:

    - `id`: a hash of the question and its answers, by which `compare` finds the same question;
    - `question`, and where they are known `set`, `system`, `answers` and `prediction`;
    - `values`: numbers by name, whose mean over the questions is the figure of that name;
    - `pairs`: by name, `[score, label]` pairs whose area under the ROC curve is that figure;
    - `error`, `notes`, `explained` (the trace as lines of text), `decision`, `action`, `excerpts`:
      for who looks at one question.

    `settings` say what was measured: `version`, `command`, `seed`, `resamples`, `made` (the time,
    UTC), `machine` (a line), `data` (`files`, `hash`, `rows`), `models` (by role: `name` and the
    `manifest`'s hash), `options` (all others as they were given). `notes` are sentences.
    """

    _nested: ClassVar = {"plots": Plot}

    kind: str
    figures: Rows
    per_question: Rows = ()
    settings: Annotated[Row, check_mapping] = field(default_factory=dict)
    plots: Annotated[Sequence[Plot], partial(check_many, kind=Plot)] = ()
    notes: Texts = ()
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        refuse_if(self.kind not in KINDS, "Result.kind", self.kind, ", ".join(KINDS))
        refuse_if(
            self.schema != SCHEMA,
            "Result.schema",
            self.schema,
            f"{SCHEMA}, the one this version writes",
        )
        Checked.__post_init__(self)

    def to_json(self) -> str:
        """Return one line of JSON; numbers that are not finite become their names."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON of `to_json`; raises `InputError` for anything else."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError.of(
                "result", given=text, allowed=f"the JSON of a fitrag evaluation: {error}"
            ) from error
        return cls.from_dict(check_mapping("result", data))

    def write(self, path: Path) -> None:
        """Write a `.json` or `.json.gz` file atomically."""
        check_result_name("--out", path)
        data = self.to_json().encode("ascii")
        write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Load a file of `write`; raises `InputError` naming it."""
        if not path.is_file():
            raise InputError.missing("Result", path)
        try:
            data = path.read_bytes()
            return cls.from_json((gzip.decompress(data) if path.suffix == ".gz" else data).decode())
        except (ValueError, EOFError, OSError, zlib.error) as error:
            raise InputError(f"{path}: {error}") from error


def check_result_name(option: str, path: Path | None) -> None:
    """Raise `InputError` naming `option` unless the file is a `.json` or `.json.gz`."""
    refuse_if(
        path is not None and not path.name.endswith(SUFFIXES),
        option,
        str(path),
        f"a file in {', '.join(SUFFIXES)}",
    )


R = TypeVar("R", bound=Row)
T = TypeVar("T")
SETS = ("set", "dataset")  # the fields that name a row's data set
SHOWN = 16  # hexadecimal digits of an id; among a million questions two agree once in 4e7 times


def question_id(question: str, answers: Iterable[str] = ()) -> str:
    """Hash a question with its gold answers, whose order does not matter."""
    return content_id([question, sorted(answers)])


def content_id(content: object, digits: int | None = SHOWN) -> str:
    """Hash plain values, the keys of objects in any order: SHA-256 in hexadecimal `digits`."""
    return hashlib.sha256(json.dumps(plain(content), sort_keys=True).encode("ascii")).hexdigest()[
        :digits
    ]


def with_ids(made: Sequence[Row]) -> list[Row]:
    """Number repeated questions of one system: the second gets `#2`, the third `#3`."""
    seen, found = Counter[tuple[str, str]](), []
    for row in made:
        own = row["system"], row["id"]
        seen[own] += 1
        found.append(row if seen[own] == 1 else {**row, "id": f"{row['id']}#{seen[own]}"})
    return found


def set_of(row: Row) -> str:
    """Return the name of a row's data set, or the empty text."""
    return str(next((row[name] for name in SETS if row.get(name)), ""))


K = TypeVar("K")


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Collect the values of each key, in the order of their first appearance."""
    found: dict[K, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def each_row(rows: Iterable[R], read: Callable[[R], T], where: str = "") -> list[T]:
    """Apply a function to every row.

    Args:
        rows: The rows.
        read: Function of a row; its `InputError` gets the row's number.
        where: Text before the number.
    """
    made = []
    for place, row in enumerate(rows, start=1):
        try:
            made.append(read(row))
        except InputError as error:
            raise error.at(f"{where}row {place}: ") from error
    return made
