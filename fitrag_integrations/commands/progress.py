"""Run a verb as a command: a progress bar and a summary on standard error, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import typer

from fitrag_integrations.commands import lines
from fitrag_integrations.commands.batch import Advance, Summary, Verb, check_names, run_batch
from fitrag_integrations.commands.options import RunOptions


def run_verb(
    name: str, load: Callable[[], Verb[Any]], source: str, target: str, options: RunOptions
) -> None:
    """Load what the verb needs, run it over the rows and tell how it went.

    Exits 0 even where rows became error rows, 1 in that case with `strict`.
    """
    check_names(source, target)
    verb = load()
    shown = sys.stderr.isatty() and not options.quiet
    with progress_bar(name, lines.count_lines(source) if shown else None, shown=shown) as advance:
        done = run_batch(verb, source, target, overwrite=options.overwrite, advance=advance)
    if not options.quiet:
        typer.echo(f"fitrag {name}: {_told(done)}", err=True)
    if options.json:  # standard output may be where the rows went
        typer.echo(json.dumps(asdict(done)), err=target == lines.STREAM)
    if options.strict and done.errors:
        raise typer.Exit(1)


def _told(done: Summary) -> str:
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
