"""Lines of a file, a gzipped file or a stream, as bytes; `-` is standard input or output."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fitrag_integrations.errors import InputError

STREAM = "-"
Write = Callable[[bytes], None]


def is_gzipped(name: str) -> bool:
    """Say whether a file of this name is read and written gzipped."""
    return name.endswith(".gz")


def read_lines(name: str) -> Iterator[bytes]:
    """Yield lines with their ends. Raises `InputError` where a gzip file is damaged."""
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
    """Count the lines that are not blank; None for what can be read only once."""
    if not Path(name).is_file():
        return None
    return sum(1 for line in read_lines(name) if line.strip())


@contextmanager
def appending(name: str) -> Iterator[Write]:
    """Give a function that appends bytes and hands them to the system before it returns.

    A gzipped file gets a member of its own for each call, so whatever was written before a kill
    can be read.
    """
    if name == STREAM:
        yield _to_stdout
        return
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    with open(name, "ab", buffering=0) as file:

        def write(data: bytes) -> None:
            whole = memoryview(gzip.compress(data, mtime=0) if is_gzipped(name) else data)
            while whole:
                whole = whole[file.write(whole) :]

        yield write


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
