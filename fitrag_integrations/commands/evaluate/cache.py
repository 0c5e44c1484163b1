"""Keep what a model said of each row, under a hash of the row, the model and the options.

A stopped run continues, a changed row or model is asked again, and rows may come in any order. The
file is JSON Lines; whatever stands in it is asked for once only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from fitrag_integrations.commands.engine.batch import Advance, chunks
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.questions import content_id

T = TypeVar("T")
CHUNK = 16  # questions that share a model batch
Answer: TypeAlias = Callable[[list[Row]], Sequence[T]]


def answered(
    rows: Sequence[Row],
    answer: Answer[T],
    *,
    setup: Row,
    path: Path | None,
    advance: Advance,
) -> list[T]:
    """Answer each row, or take what an earlier run wrote of the same row under the same `setup`.

    `answer` gets rows whose answers are missing, and gives plain values, one each. Each chunk is
    written before the next starts. Without a `path` nothing is kept. Raises `InputError` where
    the file holds something else.
    """
    keys = [content_id([setup, row]) for row in rows]
    known = {} if path is None else _known(path)
    advance(sum(key in known for key in keys))
    missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
    for chunk in chunks(missing.items(), CHUNK):
        given = answer([row for _, row in chunk])
        fresh = dict(zip((key for key, _ in chunk), given, strict=True))
        if path is not None:
            _append(path, fresh)
        known |= fresh
        advance(sum(key in fresh for key in keys))
    return [known[key] for key in keys]


def _append(path: Path, fresh: Row) -> None:
    with jsonl.appending(str(path)) as write:
        write(b"".join(jsonl.dump({"key": key, "value": fresh[key]}) for key in fresh))


def _known(path: Path) -> dict[str, Any]:
    """Read what is there; a line cut short by a kill is written anew."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    whole, newline, cut = data.rpartition(b"\n")
    if cut:
        path.write_bytes(whole + newline)
    known: dict[str, Any] = {}
    try:
        for row in jsonl.read_jsonl(path):
            known[row["key"]] = row["value"]
    except (InputError, KeyError) as error:
        given = f"{path}, line {len(known) + 1}: {error}"
        allowed = "a cache of fitrag evaluate: delete it or choose another"
        raise InputError.of("--cache", given=given, allowed=allowed) from error
    return known


def cache_of(cache: Path | None, out: Path | None) -> Path | None:
    """Choose the file: the one named, else one beside the output, else none."""
    if cache is not None and cache.suffix != ".jsonl":
        raise InputError.of("--cache", given=str(cache), allowed="a .jsonl file")
    if cache is not None or out is None:
        return cache
    return out.with_name(f"{out.name.partition('.json')[0]}.cache.jsonl")
