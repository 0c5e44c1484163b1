"""One HTML file from any number of results: it loads nothing and escapes every text."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import (
    Figure,
    counted,
    cut,
    interval,
    number,
    visible,
)
from fitrag_integrations.evaluation.figures.methods import systems
from fitrag_integrations.evaluation.report.drawings import drawings
from fitrag_integrations.evaluation.report.questions import questions
from fitrag_integrations.evaluation.report.tables import Table, tables
from fitrag_integrations.evaluation.result import Result

EXPORTED = ("id", "question", "set", "system", "prediction", "values", "action")
CELL = 1000  # characters
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
TEMPLATES = Path(__file__).parent / "templates"
KINDS = {
    "answers": "Answers",
    "rerank": "Reranking",
    "gate": "Deciding whether to retrieve",
    "route": "Judging what was retrieved",
    "compress": "Compression",
    "methods": "Methods",
    "compare": "Two runs compared",
}
MARKS = {
    "wrong": "with a wrong answer",
    "differs": "answered differently",
    "noted": "with a note or an error",
}


def html_report(
    results: Sequence[Result],
    *,
    title: str = "Evaluation",
    lead: str = "",
    prices: Prices | None = None,
    files: Table | None = None,
) -> str:
    """Return a page of results: tables with intervals, drawings, every question, and the settings.

    The page needs no network, and a policy in it forbids every connection and any script but its
    own. Texts are cut, with a note, where the page would grow beyond some megabytes.

    Args:
        results: One or more results.
        title: Title of the page.
        lead: Sentence under the title.
        prices: Prices instead of those of the runs; without any, there are no costs.
        files: Files that were left out.

    Raises:
        InputError: If there is no result.
        MissingExtraError: Without Jinja2.
    """
    refuse_if(not results, "results", (), "at least one result")
    jinja = require_extra("jinja2", extra="evaluate", feature="the HTML report")
    world = jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    style, script = ((TEMPLATES / name).read_text("utf-8") for name in ("style.css", "script.js"))
    digests = (hashlib.sha256(text.encode()).digest() for text in (style, script))
    own = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    policy = (  # only this page's own style and script
        f"default-src 'none'; img-src data:; style-src {own[0]}; script-src {own[1]}; "
        "base-uri 'none'; form-action 'none'"
    )
    asked = questions(results)
    filters = [("all", f"all {len(asked):,}")]
    for mark, words in MARKS.items():
        if count := sum(mark in each.marks for each in asked):
            filters.append((mark, f"{count:,} {words}"))
    page: str = world.get_template("page.html").render(
        title=title,
        lead=lead,
        style=style,
        script=script,
        policy=policy,
        parts=[_part(result, prices) for result in results],
        questions=asked,
        filters=filters,
        figures=_export([row for result in results for row in result.figures]),
        rows=_export(
            [
                {name: row[name] for name in EXPORTED if name in row}
                for result in results
                for row in result.per_question
            ]
        ),
        files=files if files is not None and files.rows else None,
        summary=_summary(results, len(asked)),
    )
    return page


def _export(rows: Sequence[Row]) -> str:
    """Return rows as a data link of comma-separated values."""
    flat = [dict(_cells(row)) for row in rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in flat for name in row)))
    writer.writeheader()
    writer.writerows(flat)
    return f"data:,{quote(out.getvalue().encode('utf-8', 'replace'))}"


def _cells(row: Row) -> Iterator[tuple[str, object]]:
    """Yield the cells of a row; text that a spreadsheet reads as a formula is quoted."""
    for name, value in row.items():
        if name == "values" and isinstance(value, Mapping):
            yield from _cells(value)
        elif isinstance(value, str):
            text, _ = cut(value, CELL)
            yield name, f"'{text}" if text.startswith(FORMULAS) else text
        elif value is None or isinstance(value, int | float):
            yield name, value


def _part(result: Result, prices: Prices | None) -> dict[str, object]:
    """Return the contents of the page for one result."""
    if prices is None:  # those with which the result was measured
        options = result.settings.get("options")
        given = options.get("prices") if isinstance(options, Mapping) else None
        prices = Prices.from_dict(given) if isinstance(given, Mapping) else None
    title = str(result.settings.get("part", KINDS[result.kind]))
    if asked := {row.get("id") or row.get("question") for row in result.per_question}:
        title += f", {counted(len(asked), 'question')}"
    return {
        "title": title,
        "tiles": tiles(result, prices),
        "findings": findings(result),
        "notes": result.notes,
        "tables": tables(result, prices),
        "drawings": drawings(result),
        "settings": list(_flat(result.settings)),
    }


def _summary(results: Sequence[Result], asked: int) -> list[str]:
    """Return the size, the date and the data of the results."""
    settings = results[0].settings
    parts = [counted(len(results), "result")] if len(results) > 1 else []
    parts += [counted(asked, "question")] if asked else []
    data = settings.get("data")
    if len(results) == 1 and isinstance(data, Mapping) and data.get("hash"):
        parts.append(f"data {str(data['hash'])[:12]}")
    if len(results) == 1 and settings.get("seed") is not None:
        parts.append(f"seed {settings['seed']}")
    days = []
    for made in (str(result.settings.get("made") or "") for result in results):
        try:
            day = datetime.fromisoformat(made)
            days.append(f"{day.day} {day:%B %Y}")
        except ValueError:  # no time
            days.append(made)
    return [*parts, *filter(None, dict.fromkeys(days))]


def _flat(settings: Row, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings as names and values, without unset ones."""
    for key, value in settings.items():
        name = f"{above}, {key}" if above and above != "options" else str(key)
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        elif isinstance(value, list | tuple):
            yield name, ", ".join(map(str, value)) or number(None)
        elif value is not None:
            yield name, str(value)


HEADLINE = {
    "accuracy": "accuracy",
    "tokens_in": "tokens read a question",
    "cost": "cost of 1,000 questions",
}
SAVED = {
    "answer kept": "answers kept",
    "tokens_in": "tokens of the passages",
    "tokens_out": "tokens of the excerpts",
    "accuracy of the answers": "accuracy of the answers",
    "share of retrieval": "share of retrieval",
}


def tiles(result: Result, prices: Prices | None) -> list[tuple[str, str, str]]:
    """Build the headline: accuracy, tokens and cost of the best system, or what was saved.

    A figure has its name, its value, and below it the first system's or the interval.

    Args:
        result: The result.
        prices: Prices; there is no cost without them.
    """
    lines = [line.priced(prices) for line in systems(result)]
    if lines:
        best = max(
            lines, key=lambda each: (each.accuracy.value or 0.0, -(each.value("tokens_in") or 0.0))
        )
        first: Mapping[str, Figure] = {} if lines[0] is best else lines[0].figures
        return [
            (
                f"{words}, {best.name}",
                str(best.figures[name]),
                f"{lines[0].name}: {first[name]}" if name in first else "",
            )
            for name, words in HEADLINE.items()
            if name in best.figures
        ]
    figures = {figure.name: figure for figure in map(Figure.of_row, reversed(result.figures))}
    return [
        (name, str(figures[each]), interval(figures[each].bounds))
        for each, name in SAVED.items()
        if each in figures
    ]


def findings(result: Result) -> list[str]:
    """Return sentences about the systems; empty if there are fewer than two."""
    lines = systems(result)
    if len(lines) < 2:
        return []
    top, first = max(line.accuracy.value or 0.0 for line in lines), lines[0].name
    best = [line for line in lines if line.accuracy.value == top]
    bounds = best[0].accuracy.bounds
    within = "" if bounds is None else f" (95 % interval {interval(bounds)})"
    names, verb = " and ".join(line.name for line in best), "has" if len(best) == 1 else "have"
    found, left_open = [f"{names} {verb} the highest accuracy: {number(top)}{within}."], []
    for line in lines:
        change = line.accuracy.change
        if change is None or change.bounds is None:
            continue
        if change.bounds[0] <= 0 <= change.bounds[1]:
            left_open.append(line.name)
        else:
            verb = "above" if (change.value or 0) > 0 else "below"
            found.append(f"{line.name} lies {verb} {first}: {change}.")
    if left_open:
        names = ", ".join(left_open)
        found.append(f"Not told apart from {first}, since the interval holds zero: {names}.")
    if failed := sum(line.errors for line in lines):
        verb = "counts" if failed == 1 else "count"
        found.append(f"{counted(failed, 'answer')} ended in an error and {verb} as wrong.")
    shares = {line.name: line.value("noted") or 0.0 for line in lines}
    if noted := ", ".join(f"{name} ({share:.0%})" for name, share in shares.items() if share > 0):
        found.append(f"Something was degraded or left out on some questions: {noted}.")
    return [visible(each) for each in found]
