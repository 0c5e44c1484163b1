"""Find the files of a corpus and read them as text, with a note on each file left out."""

from __future__ import annotations

import gzip
import math
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from fitrag_integrations.core.extras import installed
from fitrag_integrations.core.files import opened, read_file
from fitrag_integrations.core.jsonl import is_gzipped
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import raise_if

TEXTS = (".md", ".markdown", ".rst", ".txt")
PAGES, PAPERS = (".html", ".htm", ".xhtml"), (".pdf",)
ROWS = (".jsonl", ".jsonl.gz")
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
ARRAYS = (".json",)
KINDS = (*TEXTS, *PAGES, *PAPERS, *ROWS, *TABLES, *ARRAYS)
LIBRARIES = {"pdf": ("pypdf", "pdf"), "html": ("trafilatura", "web")}  # and their extras

MOST_FILES = 100_000
"""Files of a folder."""
MOST_BYTES = 64 << 20
"""Bytes of a text, a page or a PDF; rows are read one by one."""
MOST_LINE = 16 << 20
"""Bytes of a row."""
UNPACKED, RATIO = 1 << 30, 100
"""Bytes that any archive may unpack to, and the multiple of its size that a larger one may."""
SAMPLE = 64 << 10  # bytes that an encoding is guessed from
LEAST_SAMPLE = 32  # bytes beyond ASCII in it, below which a guess is cp1252


@dataclass(frozen=True, slots=True)
class FileNote(Record):
    """Note about a file of a corpus, or a line of it, that was left out or not read as usual.

    Attributes:
        file: Path below the corpus, with `/` between its parts.
        reason: The reason, in a few words.
        line: Line number, from 1; None for a whole file.
        is_read: Whether the text was read nevertheless, in a guessed encoding.
        is_bad: Whether the file should have been readable; False if it is not part of a corpus.
    """

    file: str
    reason: str
    line: int | None = None
    is_read: bool = False
    is_bad: bool = True

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{where}: {self.reason}"


Note = Callable[[FileNote], None]


def corpus_files(root: Path, note: Note) -> list[tuple[str, Path]]:
    """Return the names and paths of the readable files, sorted by name; note the others.

    Hidden folders, linked folders, links out of the corpus, and files that are not regular (FIFOs,
    devices, sockets) are not read.
    """
    if root.is_file():
        return [(root.name, root)] if root.name.lower().endswith(KINDS) else []
    home, count = root.resolve(), 0
    found: list[tuple[str, Path]] = []

    def failed(error: OSError) -> None:
        name = os.path.relpath(error.filename or root, root)
        shown = str(root) if name == "." else Path(name).as_posix()
        note(FileNote(shown, f"cannot be opened: {error.strerror}"))

    for folder, folders, names in os.walk(root, onerror=failed):
        for name in sorted(folders):
            path = Path(folder, name)
            if name.startswith(".") or path.is_symlink():
                folders.remove(name)
                why = "linked folder" if path.is_symlink() else "hidden folder"
                name = f"{path.relative_to(root).as_posix()}/"
                note(FileNote(name, f"{why}: not read", is_bad=False))
        for name in sorted(names):
            path = Path(folder, name)
            name = path.relative_to(root).as_posix()
            count += 1
            if count > MOST_FILES:
                note(FileNote(name, f"it and all after it: more than {MOST_FILES:,} files"))
                return sorted(found)
            reason, bad = _refused(path, home)
            if reason:
                note(FileNote(name, reason, is_bad=bad))
            else:
                found.append((name, path))
    return sorted(found)


def _refused(path: Path, home: Path) -> tuple[str, bool]:
    """Return why a file is not read, blank if it is, and whether it should have been readable."""
    try:
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(home):
            return "link out of the corpus: not followed", False
        about = path.stat()
    except (OSError, RuntimeError) as error:  # a link to nowhere, or to itself
        return f"cannot be opened: {getattr(error, 'strerror', None) or error}", True
    if not stat.S_ISREG(about.st_mode):
        return "no regular file (a FIFO, a socket or a device)", False
    if not path.name.lower().endswith(KINDS):
        return f"{path.suffix.lower() or 'files without an ending'}: not a kind that is read", False
    if not about.st_size:
        return "empty", False
    if about.st_size > MOST_BYTES and not path.name.lower().endswith((*ROWS, *TABLES)):
        return f"{about.st_size:,} bytes, more than {MOST_BYTES:,}", True
    return "", False


def text_of(path: Path, extractor: Any) -> tuple[str, str]:
    """Return the text of a file, and a note if its encoding was guessed.

    Raises:
        ValueError: If the file has no text; the message is the reason.
        OSError: If the file cannot be opened.
    """
    data = read_file(path, MOST_BYTES)
    name = path.name.lower()
    if name.endswith(TEXTS):
        return decoded(data)
    kind = "pdf" if name.endswith(PAPERS) else "html"
    library, extra = LIBRARIES[kind]
    raise_if(
        not installed(library),
        ValueError,
        f'needs {library}: pip install "fitrag-integrations[{extra}]"',
    )
    return extractor.text(kind, data), ""


def decoded(data: bytes) -> tuple[str, str]:
    """Decode a text as UTF-8, by its byte order mark, or by a guess, which is noted.

    Raises:
        ValueError: If the bytes are not text.
    """
    for mark, encoding in (
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\x00\x00\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), ""
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        if b"\0" in data[:SAMPLE]:
            raise ValueError("binary data, no text") from None
    mended = data.decode("utf-8-sig", "replace")
    broken = mended.count("\ufffd")
    if sum(each > "\x7f" for each in mended) > 3 * broken:  # mostly right, so it was UTF-8
        return mended, f"damaged UTF-8; {broken} characters are shown as \ufffd"
    sample, best = data[:SAMPLE], None
    if sum(byte > 127 for byte in sample) >= LEAST_SAMPLE and installed("charset_normalizer"):
        best = import_module("charset_normalizer").from_bytes(sample).best()
    encoding = "cp1252" if best is None else str(best.encoding)
    return data.decode(encoding, "replace"), f"not UTF-8; read as {encoding}"


def lines_of(path: Path, name: str) -> Iterator[tuple[int, bytes | FileNote]]:
    """Yield the number and bytes of each line, or a note for an overlong line or a broken end."""
    number = unpacked = 0
    try:
        with opened(path) as raw:
            packed = is_gzipped(path.name)
            size = os.fstat(raw.fileno()).st_size
            most = max(UNPACKED, RATIO * size) if packed else math.inf
            file: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            while line := file.readline(MOST_LINE + 1):
                number += 1
                unpacked += len(line)
                if len(line) <= MOST_LINE:
                    yield number, line
                else:
                    yield number, FileNote(name, f"more than {MOST_LINE:,} bytes", number)
                    while line and not line.endswith(b"\n") and unpacked <= most:
                        line = file.readline(MOST_LINE)
                        unpacked += len(line)
                if unpacked > most:
                    why = f"unpacks to more than {most:,} bytes: the rest is not read"
                    yield number, FileNote(name, why, number)
                    return
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        why = f"damaged or cut gzip file, read up to here: {error}"
        yield number + 1, FileNote(name, why, number + 1)
    except OSError as error:
        yield number + 1, FileNote(name, f"cannot be read: {error}", number + 1)
