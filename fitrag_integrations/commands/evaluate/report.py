"""`fitrag evaluate report`: results as one page that needs no network, to read, keep and send."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine.options import AsJson
from fitrag_integrations.commands.evaluate.options import Priced
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.report import html_report
from fitrag_integrations.evaluation.result import Result

PAGES = (".html", ".htm")


@dataclass(frozen=True)
class EvaluateReport:
    """Put results into one HTML file: tables, the papers' figures, every question, the settings.

    The page loads nothing and runs nothing but its own few lines. All texts are escaped. With
    prices it tells what a thousand questions cost, where tokens were counted.
    """

    results: Annotated[
        tuple[Path, ...], Argument("Results: --out of the other commands, --result of methods.")
    ]
    out: Annotated[Path, Option("Where the page goes: .html.")]
    title: Annotated[str, Option("What stands at its head.")] = "Evaluation"
    price: Priced = Priced()
    json: AsJson = False

    def run(self) -> None:
        """Write it."""
        out = self.out
        if out.suffix not in PAGES:
            raise InputError.of("--out", given=str(out), allowed=f"a file in {', '.join(PAGES)}")
        results = [Result.read(path) for path in self.results]
        page = html_report(results, title=self.title, prices=self.price.prices())
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
        size = out.stat().st_size
        if self.json:
            typer.echo(json.dumps({"results": len(results), "out": str(out), "bytes": size}))
            return
        typer.echo(f"{out}: {size / 1e6:.1f} MB, opens in any browser", err=True)
