"""Outputs of a run: their options, their lock, and where an earlier run left off."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from fitrag_integrations.commands.engine.rows import Line, Shard, read_rows, reason_of
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.extras import is_own_file
from fitrag_integrations.core.files import (
    fingerprint,
    lock,
    only_writer,
    real_path,
    replacing,
    storing,
)
from fitrag_integrations.core.jsonl import STREAM, is_gzipped, read_lines
from fitrag_integrations.errors import InputError

BLOCK = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a run; can be sent to another process and read again there.

    Where `kept` names an output, the rows it has answered bring those answers with them. `owned`
    are the fields in which an answer may differ from its row.
    """

    name: str
    shard: Shard | None = None
    kept: str | None = None
    owned: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Line]:
        rows = read_rows(read_lines(self.name), self.shard)
        if self.kept is not None:
            for row, line, error in _Output(Path(self.kept)).answered(rows, self.owned):
                yield row if error is not None else replace(row, kept=line + b"\n")
        yield from rows


def holds_rows(target: str) -> bool:
    """Check whether an output is there to be continued."""
    return target != STREAM and Path(target).exists() and Path(target).stat().st_size > 0


def resume(
    path: Path, rows: Iterator[Line], adds: Collection[str]
) -> tuple[int, Counter[str], Iterator[Line]]:
    """Skip the input rows that are already written, and truncate the output after the last.

    Returns their number, the reasons of those that are error rows, and the rows that are left.

    Every field a written row shares with its input row must be equal, those in `adds` aside; a cut
    last line must begin like its row. Raises `InputError` for any other file, and leaves it as it
    was.
    """
    done, reasons, output = 0, Counter[str](), _Output(path)
    for _, _, error in output.answered(rows, adds):
        done += 1
        if error is not None:
            reasons[reason_of(error)] += 1
    if output.tail:  # a cut line begins like its row, up to the first field that may differ
        row = next(rows, None)
        given = {} if row is None else row.given
        sure = itertools.takewhile(lambda name: name not in adds and name != "error", given)
        expected = json.dumps({name: given[name] for name in sure})[:-1].encode("ascii")
        begins = output.tail.startswith(expected) or expected.startswith(output.tail)
        if row is None or not begins:
            raise _other(path, done + 1)
        rows = itertools.chain([row], rows)
    output.cut()
    return done, reasons, rows


class _Output:
    """Read an output's whole lines; `tail` is what follows the last of them."""

    def __init__(self, path: Path) -> None:
        self._path, self._whole, self._kept, self.tail = path, True, 0, b""

    def lines(self) -> Iterator[bytes]:
        pieces: list[bytes] = []  # of the line under way, which may be as long as the file
        with self._path.open("rb") as file:
            for block in self._inflated(file) if is_gzipped(self._path.name) else _blocks(file):
                *ends, rest = block.split(b"\n")
                for end in ends:
                    line = b"".join((*pieces, end))
                    pieces.clear()
                    self._kept += len(line) + 1
                    yield line
                pieces.append(rest)
        self.tail = b"".join(pieces)

    def answered(
        self, rows: Iterator[Line], adds: Collection[str]
    ) -> Iterator[tuple[Line, bytes, object]]:
        """Yield each row with the line that answers it, and its error if it is an error row.

        Raises `InputError` for a line that is not that of its row: fields of both are equal, those
        in `adds` aside.
        """
        for number, line in enumerate(self.lines(), start=1):
            row = next(rows, None)
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if row is None or not isinstance(found, dict):
                raise _other(self._path, number)
            for name, value in row.given.items():
                own = name in adds or name == "error"
                if not own and (name not in found or json.dumps(found[name]) != json.dumps(value)):
                    raise _other(self._path, number)
            error = found.get("error")
            yield row, line, None if error == row.given.get("error") else error

    def cut(self) -> None:
        """Drop what is not a whole line; a damaged gzip file is written anew up to there."""
        if not is_gzipped(self._path.name):
            os.truncate(self._path, self._kept)
        elif self.tail or not self._whole:
            with (
                replacing(self._path) as beside,
                self._path.open("rb") as file,
                gzip.open(beside, "wb") as anew,
            ):
                for block in self._inflated(file):
                    anew.write(block[: self._kept])
                    self._kept -= len(block[: self._kept])

    def _inflated(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield what can still be read of a gzip file of any number of members."""
        member, started, self._whole = zlib.decompressobj(wbits=31), b"", True
        for block in _blocks(file):
            started = started or block
            while block:
                if member.eof:
                    member = zlib.decompressobj(wbits=31)
                try:
                    yield member.decompress(block)
                except zlib.error:
                    self._whole = False
                    break
                block = member.unused_data
        if not GZIP_MAGIC.startswith(started[:2]):
            raise _other(self._path, 1)
        self._whole = self._whole and (member.eof or not started)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK), b"")


def _other(path: Path, number: int) -> InputError:
    return InputError.of(
        "output",
        given=str(path),
        allowed=f"an output of the same input, but row {number} is not that of the input: "
        "delete it, choose another output, or give --overwrite",
    )


SUFFIX = ".settings"
OF_THE_RUN = {
    *("source", "target", "rows", "out", "limit", "device", "batch_tokens"),
    *("overwrite", "strict", "quiet", "json", "retry_failed", "engine", "workers"),
    *("url", "api", "concurrency", "retries", "timeout"),
    *("price_read", "price_written", "max_cost", "max_failures"),
}
"""Options that say how a run goes and change no row."""
SHOWN = 12  # digits of a fingerprint
Settings = dict[str, Any]


def settings_of(plan: object) -> Settings:
    """Return the options of a plan that rows depend on, without those left at their defaults."""
    return {name: plain(value) for name, value, default in _options(plan) if value != default}


def _options(plan: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield those options, each with its value and its default."""
    for each in fields(plan):
        value = getattr(plan, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if is_dataclass(value):
            yield from _options(value)
        elif each.name not in OF_THE_RUN:
            yield each.name, value, default


def plain(value: Any) -> Any:
    """Return an option as plain values; what names a file or folder with a hash of its content."""
    if isinstance(value, str | Path):
        path = f"{str(value).rpartition('.py')[0]}.py" if is_own_file(str(value)) else value
        if os.path.isfile(path) or os.path.isdir(path):
            return f"{value} ({fingerprint(Path(path))[:SHOWN]})"
    return json.loads(json.dumps(value, default=str))


@contextmanager
def settled(output: Path, verb: str, plan: object, *, anew: bool) -> Iterator[None]:
    """Lock an output for the block, and keep how it is made beside it.

    Raises `InputError` where another run is writing the output, where it has rows and no settings,
    and naming the first option that differs from those of its rows.

    Args:
        output: File to be written.
        verb: Name of the command that writes it.
        plan: Options of that command.
        anew: Start with an empty output.
    """
    settings, home = {"verb": verb, **settings_of(plan)}, real_path(output)
    beside = home.with_name(home.name + SUFFIX)
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        file = beside.open("a+b", buffering=0)
    except OSError as error:
        raise InputError.of(
            "output", given=str(output), allowed=f"a place that can be written ({error.strerror})"
        ) from error
    with file, ExitStack() as held, storing(beside):
        lock(file.fileno(), output)
        held.enter_context(only_writer(home))  # which may have other names, with other settings
        if anew:
            home.unlink(missing_ok=True)
        is_new = not home.exists()
        try:
            if is_new:
                home.touch()
                held.enter_context(only_writer(home))
            file.seek(0)
            written = file.read()
            if home.stat().st_size > 0:
                _check(_begun(written, output, beside), settings, plan, output)
            else:
                file.truncate(0)
                file.write(json.dumps(settings).encode("ascii") + b"\n")
            yield
        except BaseException:
            if is_new and home.exists() and not home.stat().st_size:
                home.unlink()
            raise


def _begun(written: bytes, output: Path, beside: Path) -> Settings:
    """Return the settings of rows that are there; raises `InputError` where they are unknown."""
    try:
        begun = jsonl.loads(written)
        if isinstance(begun, dict):
            return begun
    except ValueError:
        pass
    if not written:  # we made it
        beside.unlink()
    raise InputError.of(
        "output",
        given=str(output),
        allowed=f"an output with {beside.name}, the options of its rows, beside it: put that file "
        "back, choose another output, or give --overwrite",
    )


def _check(begun: Settings, given: Settings, plan: object, output: Path) -> None:
    usual = {name: default for name, _, default in _options(plan)}
    for name in [*given, *(name for name in begun if name not in given)]:
        if begun.get(name) != given.get(name):
            default = usual.get(name)
            wanted = begun.get(name, "its default" if default is None else default)
            allowed = (
                f"{wanted}, with which {output} was begun: "
                "give that, choose another output, or give --overwrite"
            )
            option = name if name == "verb" else f"--{name.replace('_', '-')}"
            raise InputError.of(option, given=given.get(name, "its default"), allowed=allowed)
