"""Report what of a corpus was not read, and check early that results can be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from fitrag_integrations.errors import InputError
from fitrag_integrations.retrieval import FileNote

SHOWN, NAMED = 10, 3  # reasons on the terminal, and files of each


def echo_notes(verb: str, notes: Sequence[FileNote], more: str = "") -> None:
    """Write a short table of the files and lines left out to standard error.

    Args:
        verb: Name of the command.
        notes: What was left out or read in a guessed encoding.
        more: Where all of them are listed.
    """
    reasons: dict[str, list[str]] = {}
    for note in sorted(notes, key=lambda each: not each.is_bad):
        where = note.file if note.line is None else f"{note.file}, line {note.line}"
        reasons.setdefault(note.reason, []).append(where)
    if not reasons:
        return
    typer.echo(f"fitrag {verb}: {len(notes)} left out or not read as usual:", err=True)
    for reason, places in list(reasons.items())[:SHOWN]:
        rest = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
        typer.echo(f"  {reason}: {'; '.join(places[:NAMED])}{rest}", err=True)
    if len(reasons) > SHOWN:
        typer.echo(f"  and {len(reasons) - SHOWN} more reasons", err=True)
    if more:
        typer.echo(f"  all of them: {more}", err=True)


def check_writable(option: str, file: Path) -> None:
    """Raise `InputError` unless a file can be written there; makes its folder."""
    if file.is_dir():
        raise InputError.of(option, given=str(file), allowed="a file, not a folder")
    probe = file.with_name(f".{file.name}.probe")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        allowed = f"a place that can be written to ({error.strerror or error})"
        raise InputError.of(option, given=str(file), allowed=allowed) from error
