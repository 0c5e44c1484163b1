"""`fitrag doctor`: what is installed here, what it would run on, and what it can do offline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.doctor.environment import findings
from fitrag_integrations.commands.engine import options
from fitrag_integrations.core.option import Option
from fitrag_integrations.defaults import DEFAULTS


@dataclass(frozen=True)
class DoctorPlan:
    """Show versions, devices, offline caches, bundled models and extras.

    Always exits 0. Of the environment it shows the folders of caches, never a key. With --defaults
    it lists the defaults of reranking and compression instead.
    """

    defaults: Annotated[
        bool, Option("List the defaults of reranking and compression, and what each applies to.")
    ] = False
    json: options.AsJson = False

    def run(self) -> None:
        """Print what was found."""
        if self.defaults:
            self._print_defaults()
            return
        found = findings()
        if self.json:
            typer.echo(json.dumps(found))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table("what", "found", show_header=False, box=None, padding=(0, 2, 0, 0))
        for section, values in found.items():
            table.add_row(f"[bold]{section}[/bold]", "")
            for name, value in values.items():
                table.add_row(f"  {name}", _shown(value), style=None)
        Console().print(table)

    def _print_defaults(self) -> None:
        heads = ("option", "default", "applies to")
        if self.json:
            typer.echo(json.dumps([dict(zip(heads, row, strict=True)) for row in DEFAULTS.rows()]))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(*heads, box=None, padding=(0, 2, 0, 0))
        for row in DEFAULTS.rows():
            table.add_row(*row)
        Console().print(table)


def _shown(value: Any) -> str:
    from rich.markup import escape

    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape("-" if value is None else str(value))
