"""Read and write JSON Lines, plain, gzipped or over a stream; `-` is standard input or output."""

from __future__ import annotations

import codecs
import gzip
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.core.files import lock, only_writer, replacing, storage_error, storing
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, raise_if

STREAM = "-"
Write = Callable[[bytes], None]
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NESTING = re.compile(rb"[\[\]{}]")


def is_gzipped(name: str) -> bool:
    """Check whether a file of this name is gzipped."""
    return name.lower().endswith(".gz")


def read_lines(name: str) -> Iterator[bytes]:
    """Yield lines with their ends. Raises `InputError` if a gzip file is damaged."""
    if name == STREAM:
        yield from sys.stdin.buffer
        return
    try:
        with gzip.open(name) if is_gzipped(name) else open(name, "rb") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        allowed = f"a whole gzip file; this one is damaged or cut: {error}"
        raise InputError.of("input", given=name, allowed=allowed) from error


def count_lines(name: str) -> int | None:
    """Count the lines that are not blank; None for input that can be read only once."""
    if not Path(name).is_file():
        return None
    return sum(1 for line in read_lines(name) if line.strip())


def parse(line: bytes, *, first: bool = False) -> dict[str, Any]:
    """Read a line's object; the `first` of a file may begin with a byte order mark.

    Raises `ValueError` for what is not JSON, NaN and Infinity among it, and for bad UTF-8;
    `RecursionError` for too deep a nesting; and `InputError` for another value than an object.
    """
    text = (line.removeprefix(codecs.BOM_UTF8) if first else line).decode("utf-8")
    value = json.loads(text.rstrip("\r\n"), parse_constant=_refuse, parse_float=_finite)
    return check_is("row", value, dict, "a JSON object")


def loads(text: str | bytes) -> Any:
    """Parse one JSON value; raises `ValueError` if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_size(data: bytes, *, values: int, depth: int) -> None:
    """Raise `ValueError` before parsing JSON that would need far more memory than its size.

    Args:
        data: JSON, or what is to be taken for it.
        values: Maximum number of values, lists and objects.
        depth: Maximum number of lists and objects within each other.

    Raises:
        UnicodeError: For UTF-16 and UTF-32, which `json` reads; there a byte may be half a letter.
        ValueError: For too many values, and for too many levels.
    """
    raise_if(not json.detect_encoding(data).startswith("utf-8"), UnicodeError, "not in UTF-8")
    bare = _STRINGS.sub(b"", data)
    raise_if(
        bare.count(b",") + bare.count(b"[") + bare.count(b"{") > values,
        ValueError,
        f"over {values} values",
    )
    level = 0
    for mark in _NESTING.finditer(bare):
        level += 1 if mark[0] in b"[{" else -1
        if level > depth:
            raise ValueError(f"nested deeper than {depth} levels")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(name: str) -> NoReturn:
    raise InputError.of("number", given=name, allowed="what JSON has; null stands for no number")


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; blank lines are none.

    Raises `InputError` naming the file and the first line that holds no object.
    """
    for number, line in enumerate(read_lines(str(path)), start=1):
        if not line.strip():
            continue
        try:
            row = parse(line, first=number == 1)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: {error}") from error
        yield row


def dump(row: Row) -> bytes:
    """Return a row as a line. Raises `ValueError` for NaN and Infinity, which JSON does not
    support.

    The line is in ASCII: some readers treat other Unicode line separators as line ends, and a lone
    surrogate cannot be encoded in UTF-8.
    """
    return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"


def write_jsonl(path: Path, rows: Iterable[Row]) -> None:
    """Write a file of objects atomically, in the place of one that is there."""
    with (
        replacing(path) as beside,
        gzip.open(beside, "wb") if is_gzipped(path.name) else beside.open("wb") as out,
    ):
        out.writelines(map(dump, rows))


class Log:
    """File of JSON values that one process appends to, each written out before the call returns.

    Iteration yields the stored values and drops an incomplete last line, left by a killed process.
    Raises `InputError` if another process has the file open, and `StorageError` for a full disk.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - kept open until `close`
        try:
            lock(self._file.fileno(), path)
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[Any]:
        self._file.seek(0)
        kept = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            if line.strip():
                yield loads(line)
            kept += len(line)
        self._file.truncate(kept)

    def append(self, *rows: Row) -> None:
        """Write rows, one per line."""
        rest = memoryview(b"".join(map(dump, rows)))
        with storing(self._path, len(rest)):
            while rest:
                rest = rest[self._file.write(rest) or 0 :]

    def clear(self) -> None:
        """Remove the contents."""
        self._file.truncate(0)

    def sync(self) -> None:
        """Flush written rows to disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, which releases it to other processes."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def appending(name: str) -> Iterator[Write]:
    """Lock a file, and yield a function that appends bytes and flushes them to the system.

    A gzipped file gets a member of its own for each call, so whatever was written before a kill can
    be read. Raises `InputError` where another run is writing the file or it may not be written,
    and `StorageError` for a disk that is full.
    """
    if name == STREAM:
        yield lambda data: (sys.stdout.buffer.write(data), sys.stdout.buffer.flush())[1]
        return
    with storing(name), _opening(name):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        file = open(name, "ab", buffering=0)  # noqa: SIM115 - closed below

    def write(data: bytes) -> None:
        whole = memoryview(gzip.compress(data, mtime=0) if is_gzipped(name) else data)
        with storing(name, len(whole)), _opening(name):
            while whole:
                whole = whole[file.write(whole) or 0 :]

    with file, only_writer(Path(name)):
        yield write


@contextmanager
def _opening(name: str) -> Iterator[None]:
    """Raise a plain error for a file that may not be written."""
    try:
        yield
    except OSError as error:
        if storage_error(error) is not None:
            raise
        raise InputError.of(
            "output",
            given=name,
            allowed=f"a file that can be written ({error.strerror or error}); the rows that are in "
            "it stay, and the same command goes on after them",
        ) from error
