"""`fitrag evaluate report`: results as one page that needs no network, to read, keep and send."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.report import html_report
from fitrag_integrations.evaluation.result import Result

PAGES = (".html", ".htm")


def evaluate_report(
    results: Annotated[
        list[Path],
        typer.Argument(help="Results: --out of the other commands, --result of methods."),
    ],
    out: Annotated[Path, typer.Option(help="Where the page goes: .html.")],
    title: Annotated[str, typer.Option(help="What stands at its head.")] = "Evaluation",
    price_in: evaluating.PriceIn = None,
    price_out: evaluating.PriceOut = None,
    price_search: evaluating.PriceSearch = None,
    json: options.AsJson = False,
) -> None:
    """Put results into one HTML file: tables, the papers' figures, every question, the settings.

    The page loads nothing and runs nothing but its own few lines. All texts are escaped. With
    prices it tells what a thousand questions cost, where tokens were counted.
    """
    if out.suffix not in PAGES:
        raise InputError.of("--out", given=str(out), allowed=f"a file in {', '.join(PAGES)}")
    prices = None
    if not (price_in is price_out is price_search is None):
        prices = Prices(price_in or 0.0, price_out or 0.0, price_search or 0.0)
    page = html_report([Result.read(path) for path in results], title=title, prices=prices)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    size = out.stat().st_size
    if json:
        typer.echo(json_.dumps({"results": len(results), "out": str(out), "bytes": size}))
        return
    typer.echo(f"{out}: {size / 1e6:.1f} MB, opens in any browser", err=True)
