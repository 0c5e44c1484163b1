"""Outputs of a run: their options, their lock, and where an earlier run left off."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from fitrag_integrations.commands.engine.rows import Line, reason_of
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import fingerprint, lock, only_writer, real_path, storing
from fitrag_integrations.core.jsonl import is_gzipped, read_lines
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError

SAME = ("id", "question", "answers", "raw", "method", "setup")  # fields that no verb changes


def resume(path: Path, rows: Iterator[Line]) -> tuple[int, Counter[str]]:
    """Skip the input rows that are already written, and cut off a last line that is not whole.

    Returns their number, and the reasons of those that are error rows. Raises `InputError`, and
    leaves the file as it was, where it has more rows than the input, a row of another id or
    question, or is a damaged gzip file.
    """
    done, kept, reasons = 0, 0, Counter[str]()
    for line in read_lines(str(path)):
        if not line.endswith(b"\n"):
            break
        row = next(rows, None)
        try:
            found = jsonl.loads(line)
        except ValueError:
            found = None
        if (
            row is None
            or not isinstance(found, dict)
            or any(row.given[name] != found.get(name) for name in SAME if name in row.given)
        ):
            raise InputError.of(
                "output",
                given=str(path),
                allowed=f"an output of the same input and options, but row {done + 1} is not that "
                "of the input, or --limit, --method or another option was different: give that, "
                "delete the output, choose another one, or give --overwrite",
            )
        error = found.get("error")
        if error is not None and error != row.given.get("error"):
            reasons[reason_of(error)] += 1
        done, kept = done + 1, kept + len(line)
    if not is_gzipped(path.name):  # there, each write is whole or the file is damaged
        os.truncate(path, kept)
    return done, reasons


SUFFIX = ".settings"
OF_THE_RUN = {
    *("source", "target", "rows", "out", "limit", "device", "batch_tokens"),
    *("overwrite", "keep_going", "quiet", "json", "engine", "workers"),
    *("url", "api", "concurrency", "retries", "timeout"),
    *("price_read", "price_written", "max_cost", "max_failures"),
}
"""Options that say how a run goes and change no row."""
SHOWN = 12  # digits of a fingerprint


def settings_of(plan: object) -> dict[str, Any]:
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
    if isinstance(value, str | Path) and (os.path.isfile(value) or os.path.isdir(value)):
        return f"{value} ({fingerprint(Path(value))[:SHOWN]})"
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


def _begun(written: bytes, output: Path, beside: Path) -> dict[str, Any]:
    """Return the settings of rows that are there; raises `InputError` where they are unknown."""
    with suppress(ValueError):
        begun = jsonl.loads(written)
        if isinstance(begun, dict):
            return begun
    if not written:  # we made it
        beside.unlink()
    raise InputError.of(
        "output",
        given=str(output),
        allowed=f"an output with {beside.name}, the options of its rows, beside it: put that file "
        "back, choose another output, or give --overwrite",
    )


def _check(begun: Row, given: Row, plan: object, output: Path) -> None:
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
