"""Options and output that the `fitrag evaluate` verbs share."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

import fitrag_integrations
from fitrag_integrations.commands.engine.options import AsJson, PriceIn, PriceOut
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.plots import draw
from fitrag_integrations.evaluation.rows import FORMATS, content_id
from fitrag_integrations.evaluation.table import Draws, Table, check_result_name

DRAWINGS = (".png", ".svg", ".pdf")
InputRows: TypeAlias = Annotated[Path, Argument("Input rows: .jsonl, .json, .yaml, .csv or .tsv.")]
LabeledRows: TypeAlias = Annotated[tuple[Path, ...], Argument("Labeled rows: .jsonl or .jsonl.gz.")]
Drawing: TypeAlias = Annotated[Path | None, Option("Curve to draw: .png, .svg or .pdf.")]
Format: TypeAlias = Annotated[str, Option(f"Format of the rows: {', '.join(FORMATS)}.")]


@dataclass(frozen=True, slots=True)
class Priced:
    """Prices of tokens and queries."""

    price_in: PriceIn = None
    price_out: PriceOut = None
    price_search: Annotated[
        float | None, Option("Price of a thousand retriever or search queries.", min=0)
    ] = None

    def prices(self) -> Prices | None:
        """Return the prices, None if none is given."""
        if self.price_in is self.price_out is self.price_search is None:
            return None
        return Prices(self.price_in or 0.0, self.price_out or 0.0, self.price_search or 0.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Output of a measurement, and settings of its intervals."""

    out: Annotated[
        Path | None,
        Option("File with every figure and question: .json, .json.gz, or a page .html."),
    ] = None
    draws: Draws = Draws()
    json: AsJson = False

    def check(self, plot: Path | None = None) -> None:
        """Raise `InputError`, before any work, for names of other files."""
        refuse_if(
            plot is not None and plot.suffix not in DRAWINGS,
            "--plot",
            str(plot),
            f"a file in {', '.join(DRAWINGS)}",
        )
        check_result_name("--out", self.out)

    def publish(self, table: Table, plot: Path | None = None) -> None:
        """Write a table, draw its curve, and print it as text or JSON."""
        if self.out is not None:
            table.write(self.out)
        if plot is not None and table.plot is not None:
            draw(table.plot).savefig(plot)
        if self.json:
            curves = {} if table.plot is None else dict(table.plot.series)
            asked = len({row.question for row in table.rows})
            typer.echo(json.dumps({**table.to_dict(), "questions": asked, "curves": curves}))
        else:
            typer.echo(table.text())


def settings_of(names: Sequence[object], rows: Sequence[Row], **options: object) -> Row:
    """Return what was measured: the command, the files with a hash of their rows, and `options`."""
    return {
        "version": fitrag_integrations.__version__,
        "command": sys.argv[1:],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {"files": list(map(str, names)), "hash": content_id(list(rows), None)},
        "options": options,
    }
