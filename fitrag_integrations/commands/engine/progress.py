"""Run a verb as a command: a progress bar and a summary on standard error, and the exit code."""

from __future__ import annotations

import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import typer

from fitrag_integrations.commands.engine.batch import (
    Advance,
    Done,
    Engine,
    Verb,
    check_names,
    here,
    run_batch,
)
from fitrag_integrations.commands.engine.options import (
    RAY,
    Files,
    ModelOptions,
    RunOptions,
    RunSettings,
    Searching,
)
from fitrag_integrations.commands.engine.outputs import settled
from fitrag_integrations.commands.engine.rows import read_rows
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.progress import Stopping, chunks
from fitrag_integrations.core.show import visible
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.retrieval import FileNote
from fitrag_integrations.values.excerpt import grouped

REASONS = 5  # shown, the most frequent first
LINE_SECONDS = 60.0  # between two lines where no bar can be drawn


class RowsPlan(ABC):
    """Base of the verbs over rows; each has a `name`, `files` and `how`, and loads its `verb`."""

    name: ClassVar[str]
    how: RunOptions
    files: Any

    @abstractmethod
    def verb(self) -> Verb:
        """Load what is needed."""

    def run(self) -> None:
        """Load what is needed, run the verb over the rows and print a summary.

        Exits as `leave` says. Raises `InputError`, before anything loads, where the output is being
        written by another run or was made with other options: they belong to it from then on.
        """
        from fitrag_integrations.commands.engine.scale_out import OnRay

        given, target, how = self.files.source, self.files.target, self.how
        check_names(given, target)
        with going(self.name, self, target, anew=how.overwrite) as stopping:
            engine: Engine = (
                partial(here, self.verb())
                if how.engine != RAY
                else OnRay(self, how.workers).answers
            )
            rows, total = read_rows(jsonl.read_lines(given)), jsonl.count_lines(given)
            with progress_bar("rows", total, shown=not how.quiet, verb=self.name) as advance:
                done = run_batch(engine, rows, target, advance=advance, stopping=stopping)
        _report(self.name, done, how)
        leave(done, how)


@dataclass(frozen=True)
class ModelPlan(RowsPlan):
    """Base of the verbs that run a model over rows."""

    files: Files
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()


@dataclass(frozen=True)
class SearchingPlan(ModelPlan):
    """Base of the verbs over passages, which an index brings to rows without any."""

    search: Searching = Searching()


@contextmanager
def going(name: str, plan: object, target: str, *, anew: bool) -> Iterator[Stopping]:
    """Lock the output, store the plan's options beside it, and listen for signals."""
    stopping = Stopping()
    with stopping.heard(), ExitStack() as held:
        if target != jsonl.STREAM:
            held.enter_context(settled(Path(target), name, plan, anew=anew))
        yield stopping


def leave(done: Done, options: RunSettings) -> None:
    """Exit 143 or 130 where the run was stopped, and 1 where a row failed, unless `keep_going`."""
    if done.stopped:
        raise typer.Exit(Stopping.code)
    if done.errors and not options.keep_going:
        raise typer.Exit(1)


def _report(name: str, done: Done, options: RunOptions) -> None:
    if not options.quiet:
        resumed = f", {done.resumed} of them from an earlier run" if done.resumed else ""
        errors = f"{done.errors} error rows" if done.errors else "no error row"
        errors += f", {done.empty} empty answers" if done.empty else ""
        typer.echo(
            f"fitrag {name}: {done.rows} rows in {done.output}{resumed}, {errors}, "
            f"{done.seconds:.1f} s",
            err=True,
        )
    if not options.quiet or not options.keep_going:
        for reason, count in done.reasons.most_common(REASONS):
            typer.echo(visible(f"fitrag {name}: {count} x {reason}"), err=True)
        if done.errors:
            which = (
                "every row" if done.errors == done.rows else f"{done.errors} of {done.rows} rows"
            )
            code = 0 if options.keep_going else 1
            typer.echo(f"fitrag {name}: {which} failed: exit code {code}", err=True)
    if done.stopped:
        typer.echo(
            f"fitrag {name}: asked to stop after {done.rows} rows; the same command goes on after "
            "them",
            err=True,
        )
    if options.json:  # standard output may be where the rows went
        names = ("output", "rows", "resumed", "errors", "seconds")
        summary = {name: getattr(done, name) for name in names}
        typer.echo(json.dumps(summary), err=done.output == jsonl.STREAM)


@contextmanager
def progress_bar(
    label: str,
    total: int | None,
    *,
    shown: bool = True,
    verb: str = "",
    also: Callable[[], str] = str,
) -> Iterator[Advance]:
    """Show a bar on standard error; yields the function that moves it on.

    Args:
        label: What is done.
        total: Number of items; None if it is not known.
        shown: False for no output at all.
        verb: Command, for the plain line that is written every minute where standard error is no
            terminal.
        also: What else is done, for that line.
    """
    if not shown:
        yield lambda _: None
    elif sys.stderr.isatty():
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        with tqdm(total=total, desc=f"{verb} {label}".strip()) as drawn:
            yield drawn.update
    else:
        yield from _lines(label, total, verb, also)


def chunked(
    label: str, items: Sequence[T], size: int, *, shown: bool = True, verb: str = ""
) -> Iterator[Sequence[T]]:
    """Yield the items in chunks, under a bar that moves on once a chunk is done.

    Args:
        label: What is done.
        items: The items.
        size: Items of a chunk.
        shown: False for no output at all.
        verb: Command, as in `progress_bar`.
    """
    with progress_bar(label, len(items), shown=shown, verb=verb) as advance:
        for some in chunks(items, size):
            yield some
            advance(len(some))


def _lines(label: str, total: int | None, verb: str, also: Callable[[], str]) -> Iterator[Advance]:
    """Write a line every minute, also while nothing is finished."""
    done, over, began = [0], threading.Event(), time.monotonic()
    of = "" if total is None else f" of {total:,}"
    head = f"fitrag {verb}".strip()

    def say() -> None:
        passed = time.monotonic() - began
        if passed >= LINE_SECONDS:
            typer.echo(f"{head}: {label}: {done[0]:,}{of}{also()}, {passed:.0f} s", err=True)

    def keep_saying() -> None:
        while not over.wait(LINE_SECONDS):
            say()

    def advance(count: int) -> None:
        done[0] += count

    thread = threading.Thread(target=keep_saying, daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        over.set()
        thread.join()
    say()


SHOWN, NAMED = 10, 3  # reasons on the terminal, and files of each


def echo_notes(verb: str, notes: Sequence[FileNote], more: str = "") -> None:
    """Write a short table of the files and lines left out to standard error.

    Args:
        verb: Name of the command.
        notes: What was left out or read in a guessed encoding.
        more: Where all of them are listed.
    """
    reasons = grouped(sorted(notes, key=lambda each: not each.is_bad), attrgetter("reason"))
    if not reasons:
        return
    typer.echo(f"fitrag {verb}: {len(notes)} left out or not read as usual:", err=True)
    for reason, own in list(reasons.items())[:SHOWN]:
        places = [one.file if one.line is None else f"{one.file}, line {one.line}" for one in own]
        rest = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
        typer.echo(visible(f"  {reason}: {'; '.join(places[:NAMED])}{rest}"), err=True)
    if len(reasons) > SHOWN:
        typer.echo(f"  and {len(reasons) - SHOWN} more reasons", err=True)
    if more:
        typer.echo(f"  all of them: {more}", err=True)


def check_writable(option: str, file: Path) -> None:
    """Raise `InputError` unless a file can be written there; makes its folder."""
    refuse_if(file.is_dir(), option, str(file), "a file, not a folder")
    probe = file.with_name(f".{file.name}.probe")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise InputError.of(
            option,
            given=str(file),
            allowed=f"a place that can be written to ({error.strerror or error})",
        ) from error
