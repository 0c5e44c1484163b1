"""`fitrag doctor`: what is installed here, what it would run on, and what it can do offline."""

from __future__ import annotations

import json as json_
from typing import Any

import typer

from fitrag_integrations.commands import options
from fitrag_integrations.commands.machine import findings


def doctor(json: options.AsJson = False) -> None:
    """Tell versions, devices, offline caches, embedded models and extras.

    Always exits 0. Of the environment it shows the folders of caches, never a key.
    """
    found = findings()
    if json:
        typer.echo(json_.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "found", show_header=False, box=None, padding=(0, 2, 0, 0))
    for section, values in found.items():
        table.add_row(f"[bold]{section}[/bold]", "")
        for name, value in values.items():
            table.add_row(f"  {name}", _shown(value), style=None)
    Console().print(table)


def _shown(value: Any) -> str:
    from rich.markup import escape

    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape("-" if value is None else str(value))
