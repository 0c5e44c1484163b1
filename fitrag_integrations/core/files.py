"""Files with one writer at a time, written atomically.

Locks are on the file itself (its device and inode), so a symbolic or hard link is the same file. A
file that is replaced is written beside the old one, flushed to the disk and renamed. A disk that is
full, read-only or broken raises `StorageError`, whichever library was writing. A fingerprint covers
a file's contents, not its name.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fitrag_integrations.errors import InputError, StorageError

MOST_BYTES = 64 << 20  # of a file of settings or rows that is read whole
NONBLOCK = 0 if os.name == "nt" else os.O_NONBLOCK  # opening a pipe would wait for its writer
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)
_HELD = set[tuple[int, int, int]]()  # device and inode, and the thread that holds the lock


def lock(descriptor: int, output: Path) -> None:
    """Lock an open file until it is closed or the process ends, however it ends; not on Windows.

    Raises `InputError` naming `output` where another run has it.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            allowed = "an output that no other run is writing"
            raise InputError.of("output", given=str(output), allowed=allowed) from None
        except OSError:  # a file system that has no locks
            return


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Lock a file or folder for the block; the same thread may lock it again.

    The lock is on the target of the name and leaves no file behind. Only files and folders are
    locked. Raises `InputError` at once if another thread or process has the lock. If the system
    cannot lock (Windows, some network file systems), nothing is locked.
    """
    with contextlib.ExitStack() as closing:
        if path.is_file() or path.is_dir():
            with contextlib.suppress(PermissionError):
                handle = os.open(path, os.O_RDONLY)
                closing.callback(os.close, handle)  # which releases the lock
                found = os.fstat(handle)
                held = found.st_dev, found.st_ino, threading.get_ident()
                if held not in _HELD:
                    lock(handle, path)
                    _HELD.add(held)
                    closing.callback(_HELD.discard, held)
        yield


def real_path(path: Path) -> Path:
    """Return the file that a symbolic link leads to; a device or pipe keeps its own name."""
    real = Path(os.path.realpath(path))
    return path if real.exists() and not real.is_file() else real


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file beside `path`, which takes its place once the block has written it.

    A reader sees the old file or the whole new one, also after a power cut. Where the block fails,
    the old file stays. A device or pipe is written directly. Raises `StorageError`.
    """
    path = real_path(path)
    if path.exists() and not path.is_file():
        with storing(path):
            yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".fitrag-{secrets.token_hex(4)}.partial")
    try:
        with storing(path):
            yield beside
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(path, beside)
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(beside, path)
            with contextlib.suppress(OSError):  # Windows opens no folder
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file atomically, text in UTF-8. Raises `StorageError` naming the bytes it needs."""
    data = data.encode("utf-8") if isinstance(data, str) else data
    with storing(path, len(data)), replacing(path) as beside:
        beside.write_bytes(data)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; raises `OSError` for a pipe or a device, which may never end."""
    handle = os.open(path, os.O_RDONLY | NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield file


def read_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the contents of a file; raises `OSError` for one of more than `most` bytes."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(
                errno.EINVAL, f"it has {size:,} bytes, at most {most:,} are read", str(path)
            )
        return file.read(most)


@contextlib.contextmanager
def storing(path: Path | str, needed: int | None = None) -> Iterator[None]:
    """Raise `StorageError` for an error of the disk in the block; `needed` counts bytes."""
    try:
        yield
    except Exception as error:
        failed = storage_error(error, path, needed)
        if failed is None:
            raise
        raise failed from error


def storage_error(
    error: BaseException, path: Path | str | None = None, needed: int | None = None
) -> StorageError | None:
    """Return the `StorageError` for an error of the disk; None for any other error.

    Libraries that write through C or Rust raise errors of their own with the system's words in
    them.

    Args:
        error: The error that was raised.
        path: File that was being written, if it is known.
        needed: Bytes that were to be written, if they are known.
    """
    if isinstance(error, StorageError):
        known = error.needed is not None or needed is None
        return error if known else StorageError.of(error.reason, path or error.path, needed)
    code = error.errno if isinstance(error, OSError) else None
    words = str(error) if code is None else os.strerror(code)
    reason = next((said for said in map(os.strerror, DISK_ERRORS) if said in words), "")
    path = path or getattr(error, "filename", None)
    return StorageError.of(reason, path, needed) if reason else None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(path: Path) -> str:
    """Hash a file, or a folder by its files' names and contents: SHA-256 in hexadecimal digits."""
    digest = hashlib.sha256()
    for each in sorted(e for e in path.rglob("*") if e.is_file()) if path.is_dir() else [path]:
        digest.update(f"{each.relative_to(path)}\0{each.stat().st_size}\0".encode())
        digest.update(bytes.fromhex(sha256_of(each)))
    return digest.hexdigest()
