"""Keep with an output the settings it was made with, and have it to ourselves meanwhile.

They are in a file beside it, `out.jsonl.settings`: the verb, and each option that was not left at
its default, unless it changes only how a run goes. A folder or recipe that is named is kept with a
hash of what is in it, so that a model trained anew is another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import lock, only_writer, real_path
from fitrag_integrations.errors import InputError

SUFFIX = ".settings"
OF_THE_RUN = {"source", "target", "rows", "out", "limit", "device", "batch_tokens"}
OF_THE_RUN |= {"overwrite", "strict", "quiet", "json", "retry_failed", "engine", "workers"}
OF_THE_RUN |= {"url", "api", "concurrency", "retries", "timeout"}
OF_THE_RUN |= {"price_read", "price_written", "max_cost", "max_failures"}
"""Options that say how a run goes and change no row."""
HASHED_WHOLE = 1 << 20  # bytes; of a larger file in a folder only the size counts
Settings = dict[str, Any]


def settings_of(plan: object) -> Settings:
    """Return the options of a plan that rows depend on, without those left at their defaults."""
    return {name: _plain(value) for name, value, default in _options(plan) if value != default}


def _options(plan: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield those options, each with its value and its default."""
    for field in fields(plan):
        value = getattr(plan, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if is_dataclass(value):
            yield from _options(value)
        elif field.name not in OF_THE_RUN:
            yield field.name, value, default


def _plain(value: Any) -> Any:
    if isinstance(value, str | Path):
        is_read = str(value).endswith(".toml") or (isinstance(value, Path) and value.is_file())
        if is_read or Path(value).is_dir():
            return f"{value} ({_fingerprint(Path(value))})"
    return json.loads(json.dumps(value, default=str))


def _fingerprint(path: Path) -> str:
    """Sum up a file, or a folder by its files' names and sizes and what is in the small ones."""
    digest = hashlib.sha256()
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    for each in files:
        size = each.stat().st_size if each.exists() else 0
        digest.update(f"{each.relative_to(path)}\0{size}\0".encode())
        if size and (size <= HASHED_WHOLE or each == path):
            with each.open("rb") as file:
                for block in iter(partial(file.read, HASHED_WHOLE), b""):
                    digest.update(block)
    return digest.hexdigest()[:12]


@contextmanager
def settled(output: Path, verb: str, plan: object, *, anew: bool) -> Iterator[bool]:
    """Lock `output`, made by `verb` with a plan; with `anew` it starts empty.

    Gives whether it was known how rows that are in it were made. Raises `InputError` where another
    run is writing it, and naming the first option that differs from those of its rows.
    """
    settings, home = {"verb": verb, **settings_of(plan)}, real_path(output)
    beside = home.with_name(home.name + SUFFIX)
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        file = beside.open("a+b")
    except OSError as error:
        allowed = f"a place that can be written ({error.strerror})"
        raise InputError.of("output", given=str(output), allowed=allowed) from error
    with file, ExitStack() as held:
        lock(file.fileno(), output)
        held.enter_context(only_writer(home))  # which may have other names, with other settings
        if anew:
            home.unlink(missing_ok=True)
        if is_new := not home.exists():
            home.touch()
            held.enter_context(only_writer(home))
        there = home.stat().st_size > 0
        file.seek(0)
        begun = _read(file.read())
        if there and begun is not None:
            _check(begun, settings, {name: usual for name, _, usual in _options(plan)}, output)
        else:
            file.truncate(0)
            file.write(json.dumps(settings).encode("ascii") + b"\n")
            file.flush()
        try:
            yield begun is not None or not there
        except BaseException:
            if there and begun is None:  # it may be no output of ours
                beside.unlink()
            if is_new and home.exists() and not home.stat().st_size:
                home.unlink()
            raise


def _read(data: bytes) -> Settings | None:
    """Read settings; None for none, or for those of a run stopped as it wrote them."""
    try:
        found = jsonl.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _check(begun: Settings, given: Settings, usual: Settings, output: Path) -> None:
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
