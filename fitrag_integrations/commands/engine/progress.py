"""Run a verb as a command: a progress bar and a summary on standard error, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import typer

from fitrag_integrations.commands.engine.batch import (
    Advance,
    Done,
    Summary,
    Verb,
    check_names,
    run_batch,
)
from fitrag_integrations.commands.engine.options import Files, RunOptions
from fitrag_integrations.commands.engine.settings import settings_of, settled
from fitrag_integrations.commands.engine.stopping import EXIT_TERMINATED, Stopping
from fitrag_integrations.core import jsonl

REASONS = 5  # shown, the most frequent first


class RowsPlan(Protocol):
    """Say what a plan over rows has."""

    @property
    def files(self) -> Files:
        """Give what is read and written."""

    @property
    def how(self) -> RunOptions:
        """Say how to go over the rows."""

    def verb(self) -> Verb[Any]:
        """Load what is needed."""


def run_plan(name: str, plan: RowsPlan) -> None:
    """Run a plan over its rows; its other options belong to the output from then on."""
    run_verb(name, plan.verb, plan.files, plan.how, settings_of(plan))


def run_verb(
    name: str,
    load: Callable[[], Verb[Any]],
    files: Files,
    options: RunOptions,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Load what the verb needs, run it over the rows and tell how it went.

    Exits 0 even where rows became error rows, 1 in that case with `strict`, and 1 where every row
    did. Raises `InputError`, before anything loads, where the output is being written by another
    run or was made with other `settings`.
    """
    source, target = files.source, files.target
    check_names(source, target)
    stopping = Stopping()
    with stopping.heard(), _settled(name, target, options, settings):
        verb = load()
        shown = sys.stderr.isatty() and not options.quiet
        total = jsonl.count_lines(source) if shown else None
        with progress_bar(name, total, shown=shown) as advance:
            done = run_batch(verb, source, target, advance=advance, stopping=stopping)
    _tell(name, done, options)
    if done.stopped:
        raise typer.Exit(EXIT_TERMINATED)
    if done.summary.errors and (options.strict or done.summary.errors == done.summary.rows):
        raise typer.Exit(1)


@contextmanager
def _settled(
    name: str, target: str, options: RunOptions, settings: Mapping[str, Any] | None
) -> Iterator[None]:
    if target == jsonl.STREAM:
        yield
        return
    with settled(Path(target), name, settings or {}, anew=options.overwrite) as known:
        if not known and not options.quiet:
            said = f"{target} does not tell its settings: taken to be made with these"
            typer.echo(f"fitrag {name}: {said}", err=True)
        yield


def _tell(name: str, done: Done, options: RunOptions) -> None:
    summary = done.summary
    if not options.quiet:
        typer.echo(f"fitrag {name}: {_sentence(summary)}", err=True)
    if not options.quiet or summary.errors == summary.rows:
        for reason, count in done.reasons.most_common(REASONS):
            typer.echo(f"fitrag {name}: {count} x {reason}", err=True)
    if summary.errors and summary.errors == summary.rows:
        typer.echo(f"fitrag {name}: every row failed", err=True)
    if done.stopped:
        said = f"asked to stop after {summary.rows} rows; the same command goes on after them"
        typer.echo(f"fitrag {name}: {said}", err=True)
    if options.json:  # standard output may be where the rows went
        typer.echo(json.dumps(asdict(summary)), err=summary.output == jsonl.STREAM)


def _sentence(done: Summary) -> str:
    resumed = f", {done.resumed} of them from an earlier run" if done.resumed else ""
    errors = f"{done.errors} error rows" if done.errors else "no error row"
    return f"{done.rows} rows in {done.output}{resumed}, {errors}, {done.seconds:.1f} s"


@contextmanager
def progress_bar(label: str, total: int | None, *, shown: bool = True) -> Iterator[Advance]:
    """Show a bar on standard error; gives the function that moves it on."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)
