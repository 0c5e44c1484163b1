"""Read passages from JSON Lines, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from fitrag_integrations._checks import check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Passage


def read_rows(file: Path) -> Iterator[Passage | InputError]:
    """Read one passage a line; a line that holds none gives its error, blank lines nothing."""
    number = 0
    try:
        with _open(file) as lines:  # bytes: in text mode other characters end a line too
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _parsed(file, number, line)
    except (OSError, EOFError, zlib.error) as error:  # a broken archive has no next line
        yield InputError(f"{file}, line {number + 1}: cannot be read: {error}")


def _open(file: Path) -> IO[bytes] | gzip.GzipFile:
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rb")
    return file.open("rb")


def _parsed(file: Path, number: int, line: bytes) -> Passage | InputError:
    try:
        row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        if not isinstance(row, dict):
            raise InputError.of("row", given=row, allowed="an object with text")
        return _passage(row, file.name, number)
    except (ValueError, RecursionError) as error:
        return InputError(f"{file}, line {number}: {error}")


def _passage(row: dict[str, Any], name: str, number: int) -> Passage:
    text = check_text("text", row.pop("text", None), blank=False)
    given = row.pop("id", None)
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    identity = f"{name}#{number}" if given is None else check_text("id", given, blank=False)
    title = check_text("title", row.pop("title", None) or "")
    source = row.pop("source") if isinstance(row.get("source"), str) else name
    nested = row.pop("metadata") if isinstance(row.get("metadata"), Mapping) else {}
    return Passage(identity, text, title, source, {**nested, **row})
