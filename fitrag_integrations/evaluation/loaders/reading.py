"""Read published questions and run files, from disk or from the Hugging Face hub."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.loaders.fields import mapping
from fitrag_integrations.evaluation.loaders.shapes import FORMATS, SHAPES, selfrag_lists
from fitrag_integrations.evaluation.result import each_row

HUB, LINES = "hf:", ".jsonl"
LONGEST = 2**31 - 1  # characters in a field of a table: PubHealth has whole articles
HUB_NAMES = "hf:NAME:SPLIT or hf:NAME:CONFIG:SPLIT"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Converted rows, and where they come from.

    Args:
        rows: Rows of question and answers.
        format: Name of the shape they were published in.
        notes: Sentences about rows that were left out.
    """

    rows: list[Row]
    format: str
    notes: tuple[str, ...] = ()


def recognize(row: Row) -> str:
    """Return the name of a row's shape.

    Raises:
        InputError: If it has no known shape; the message lists its fields and the known shapes.
    """
    mapping("row", row)
    for name, shape in SHAPES.items():
        if all(each in row for each in shape.fields) and shape.fits(row):
            return name
    known = "; ".join(f"{name} ({', '.join(shape.fields)})" for name, shape in SHAPES.items())
    known = known.replace("selfrag ()", "selfrag (ctxs, docs or output)")
    given = ", ".join(map(str, row)) or "no field"
    raise InputError(f"format: given a row of the fields {given}, allowed {known}")


def convert(rows: Sequence[Row], format: str = "auto") -> Loaded:
    """Convert rows of one published shape, in their order.

    Args:
        rows: Rows as published, at least one.
        format: One of `FORMATS`, or "auto" to recognize the first row's.

    Returns:
        The converted rows. PubHealth's claims without a label are left out, and counted in `notes`.

    Raises:
        InputError: If the shape is unknown, or a row is not as published; rows count from 1.

    Example:
        >>> convert([{"question": "who?", "answer": ["Ann"]}]).rows
        [{'question': 'who?', 'answers': ['Ann']}]
    """
    refuse_if(
        format != "auto" and format not in FORMATS, "format", format, ", ".join(("auto", *FORMATS))
    )
    refuse_if(not rows, "rows", 0, "at least one row")
    name = recognize(rows[0]) if format == "auto" else format
    found = each_row(rows, lambda row: SHAPES[name].read(mapping("row", row)))
    kept = [row for row in found if row is not None]
    refuse_if(not kept, "rows", f"{len(rows)} without a label", "labelled rows")
    left = len(rows) - len(kept)
    notes = (f"{left} of {len(rows)} rows have no label and are left out",) if left else ()
    return Loaded(kept, name.partition(" ")[0], notes)


def read_questions(source: str, format: str = "auto", *, split: str | None = None) -> Loaded:
    """Read and convert a file or a data set.

    Args:
        source: As for `read_records`.
        format: As for `convert`.
        split: As for `read_records`.

    Returns:
        The converted rows.

    Raises:
        InputError: If the source cannot be read or its shape is unknown; names the source.
        MissingExtraError: For a data set of the hub without the package `datasets`.
    """
    found = read_records(source, split=split)
    try:
        return convert(found, format)
    except InputError as error:
        raise error.at(f"{source}: ") from error


def read_records(source: str, *, split: str | None = None) -> list[Row]:
    """Read the rows of a file or a data set unchanged.

    Args:
        source: A `.jsonl`, `.json` or `.tsv` file, gzipped or not; or a data set of the Hugging
            Face hub as `hf:NAME:SPLIT` or `hf:NAME:CONFIG:SPLIT`.
        split: Split to read of a file that holds several.

    Returns:
        One mapping a row.

    Raises:
        InputError: If the file is missing or damaged.
        MissingExtraError: For a data set of the hub without the package `datasets`.
    """
    if source.startswith(HUB):
        return _from_hub(source)
    path = Path(source)
    if not path.is_file():
        raise InputError.of("rows", given=source, allowed=f"a file that is there, or {HUB_NAMES}")
    end = Path(path.name.removesuffix(".gz")).suffix
    if end == LINES:
        return list(read_jsonl(path))
    refuse_if(end not in (".json", ".tsv"), "rows", source, "a file in .jsonl, .json, .tsv or .gz")
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise InputError.of(
            "rows", given=source, allowed=f"whole text in UTF-8: {error}"
        ) from error
    if end == ".tsv":
        before = csv.field_size_limit(LONGEST)
        try:
            return [
                dict(row) for row in csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
            ]
        finally:
            csv.field_size_limit(before)
    try:
        return [mapping("row", row) for row in _listed(text, split)]
    except InputError as error:
        raise error.at(f"{source}: ") from error


def _listed(text: str, split: str | None) -> list[Any]:
    """Return the rows of one JSON value: a list, rows under `data`, or rows by split and id."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError.of("rows", given=text, allowed=f"JSON: {error}") from error
    if isinstance(value, list):
        return value
    given = mapping("row", value)
    if "preds" in given and "prompts" in given:
        return selfrag_lists(given)
    for name in ("data", "Data"):
        if isinstance(given.get(name), list):
            return list(given[name])
    refuse_if(split is None and len(given) > 1, "--split", None, f"one of {', '.join(given)}")
    name = next(iter(given), "") if split is None else split
    if not isinstance(part := given.get(name), list | Mapping):
        raise InputError.of("--split", given=name, allowed=f"one of {', '.join(given)}")
    if isinstance(part, list):
        return part
    return [{"id": key, **mapping("row", row)} for key, row in part.items()]  # ASQA's


def _from_hub(source: str) -> list[Row]:
    name, *rest = source.removeprefix(HUB).split(":")
    refuse_if(not name or not 1 <= len(rest) <= 2 or not all(rest), "rows", source, HUB_NAMES)
    home = require_extra("datasets", extra="datasets", feature="data sets of the Hugging Face hub")
    *config, split = rest
    try:
        found = home.load_dataset(name, *config, split=split)
    except (OSError, ValueError, RuntimeError) as error:  # no such name, no network, a script
        raise InputError.of(
            "rows", given=source, allowed=f"a data set on the hub: {error}"
        ) from error
    return [dict(row) for row in found]
