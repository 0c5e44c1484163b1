"""Read published files as they are: JSON Lines, one JSON value, tab-separated; or from the hub."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders.converting import Loaded, convert
from fitrag_integrations.evaluation.loaders.runs import selfrag_lists

HUB, LINES = "hf:", ".jsonl"
LONGEST = 2**31 - 1  # characters in a field of a table: PubHealth holds whole articles
ASKED = "hf:NAME:SPLIT or hf:NAME:CONFIG:SPLIT"


def read_questions(source: str, format: str = "auto", *, split: str | None = None) -> Loaded:
    """Read a file or a data set and convert it.

    `source` and `split` are as for `read_records`; `format` names the shape, "auto" finds it out.
    Raises `InputError`, naming the source, for what cannot be read and for an unknown shape.
    """
    found = read_records(source, split=split)
    try:
        return convert(found, format)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def read_records(source: str, *, split: str | None = None) -> list[Row]:
    """Read the rows of `source`, a file or a data set of the hub, as they are.

    A file is `.jsonl`, `.json` or `.tsv`, gzipped or not; `hf:NAME:SPLIT` and
    `hf:NAME:CONFIG:SPLIT` name a data set, which needs the package `datasets`. Of a file that holds
    several splits, `split` takes one. Raises `InputError` for a file that is missing or damaged,
    and `MissingExtraError` without `datasets`.
    """
    if source.startswith(HUB):
        return _from_hub(source)
    path = Path(source)
    if not path.is_file():
        allowed = f"a file that is there, or {ASKED}"
        raise InputError.of("rows", given=source, allowed=allowed)
    name = path.name.removesuffix(".gz")
    if name.endswith(LINES):
        return list(read_jsonl(path))
    read = next((read for end, read in WHOLE.items() if name.endswith(end)), None)
    if read is None:
        ends = ", ".join((LINES, *WHOLE))
        raise InputError.of("rows", given=source, allowed=f"a file in {ends} or .gz")
    try:
        return read(_text(path), split)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        allowed = f"whole text in UTF-8: {error}"
        raise InputError.of("rows", given=str(path), allowed=allowed) from error


def _value(text: str, split: str | None) -> list[Row]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError.of("rows", given=text, allowed=f"JSON: {error}") from error
    return [_object(row) for row in _listed(value, split)]


def _listed(value: object, split: str | None) -> list[Any]:
    """Find the rows of one JSON value: a list, rows under `data`, or rows by split and id."""
    if isinstance(value, list):
        return value
    given = _object(value)
    if "preds" in given and "prompts" in given:
        return selfrag_lists(given)
    for name in ("data", "Data"):
        if isinstance(given.get(name), list):
            return list(given[name])
    if split is None and len(given) > 1:
        raise InputError.of("--split", given=None, allowed=f"one of {', '.join(given)}")
    name = next(iter(given), "") if split is None else split
    if not isinstance(part := given.get(name), list | Mapping):
        raise InputError.of("--split", given=name, allowed=f"one of {', '.join(given)}")
    if isinstance(part, list):
        return part
    return [{"id": key, **_object(row)} for key, row in part.items()]  # ASQA's: rows by their id


def _table(text: str, split: str | None) -> list[Row]:
    before = csv.field_size_limit(LONGEST)
    try:
        return [dict(row) for row in csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")]
    finally:
        csv.field_size_limit(before)


def _object(value: object) -> Row:
    if not isinstance(value, dict):
        raise InputError.of("row", given=value, allowed="an object")
    return value


def _from_hub(source: str) -> list[Row]:
    name, *rest = source.removeprefix(HUB).split(":")
    if not name or not 1 <= len(rest) <= 2 or not all(rest):
        raise InputError.of("rows", given=source, allowed=ASKED)
    home = require_extra("datasets", extra="datasets", feature="data sets of the Hugging Face hub")
    *config, split = rest
    try:
        found = home.load_dataset(name, *config, split=split)
    except (OSError, ValueError, RuntimeError) as error:  # no such name, no network, a script
        allowed = f"a data set on the hub: {error}"
        raise InputError.of("rows", given=source, allowed=allowed) from error
    return [dict(row) for row in found]


WHOLE = {".json": _value, ".tsv": _table}
