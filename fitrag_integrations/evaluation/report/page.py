"""One HTML file from any number of results: it loads nothing and escapes every text."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import (
    Figure,
    counted,
    cut,
    interval,
    number,
    visible,
)
from fitrag_integrations.evaluation.figures.methods import System, systems
from fitrag_integrations.evaluation.report.figures import drawings
from fitrag_integrations.evaluation.report.questions import Question, questions
from fitrag_integrations.evaluation.report.tables import Shown, Table, tables
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


@dataclass(frozen=True, slots=True)
class Part:
    """Contents of the page for one result."""

    title: str
    tiles: list[Tile]
    findings: list[str]
    notes: Sequence[str]
    tables: list[Table]
    drawings: list[Shown]
    settings: list[tuple[str, str]]


def html_report(
    results: Sequence[Result],
    *,
    title: str = "Evaluation",
    lead: str = "",
    prices: Prices | None = None,
    files: Table | None = None,
) -> str:
    """Return the page of one or more results, under `title` and the sentence `lead`.

    It holds their tables with intervals, their drawings, every question with what each system did,
    and the settings. `prices` go before those of the runs; without any, there are no costs. `files`
    lists what was left out. The page
    needs no network, and a policy in it forbids every connection and any script but its own. Texts
    are cut where the page would grow beyond some megabytes, and it says so. Raises `InputError`
    where there is no result. Needs Jinja2.
    """
    if not results:
        raise InputError.of("results", given=(), allowed="at least one result")
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
    asked = questions(results)
    page: str = world.get_template("page.html").render(
        title=title,
        lead=lead,
        style=style,
        script=script,
        policy=_policy(style, script),
        parts=[_part(result, place, prices) for place, result in enumerate(results, start=1)],
        questions=asked,
        filters=list(_filters(asked)),
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


def _filters(asked: Sequence[Question]) -> Iterator[tuple[str, str]]:
    """Yield the filters of the questions, with their counts."""
    yield "all", f"all {len(asked):,}"
    for mark, words in MARKS.items():
        if count := sum(mark in each.marks for each in asked):
            yield mark, f"{count:,} {words}"


def _policy(style: str, script: str) -> str:
    """Allow this page's own style and script, and no other source of anything."""
    own = (base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (style, script))
    styles, scripts = (f"'sha256-{digest}'" for digest in own)
    rules = ("default-src 'none'", "img-src data:", f"style-src {styles}", f"script-src {scripts}")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


def _part(result: Result, place: int, prices: Prices | None) -> Part:
    prices = _prices(result) if prices is None else prices
    return Part(
        title=", ".join([str(result.settings.get("part", KINDS[result.kind])), *_size(result)]),
        tiles=tiles(result, prices),
        findings=findings(result),
        notes=result.notes,
        tables=tables(result, prices),
        drawings=drawings(result, place, prices),
        settings=list(_flat(result.settings)),
    )


def _size(result: Result) -> list[str]:
    """Return the number of questions of a result, if it kept them."""
    asked = {row.get("id") or row.get("question") for row in result.per_question}
    return [counted(len(asked), "question")] if asked else []


def _prices(result: Result) -> Prices | None:
    """Find the prices with which a result was measured."""
    options = result.settings.get("options")
    found = options.get("prices") if isinstance(options, Mapping) else None
    return Prices.from_dict(found) if isinstance(found, Mapping) else None


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
    days = dict.fromkeys(_day(str(r.settings["made"])) for r in results if r.settings.get("made"))
    return [*parts, *days]


def _day(made: str) -> str:
    """Write a time as a day, where it is one."""
    try:
        found = datetime.fromisoformat(made)
    except ValueError:
        return made
    return f"{found.day} {found:%B %Y}"


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


@dataclass(frozen=True, slots=True)
class Tile:
    """Figure of the headline, with the first system's below."""

    name: str
    value: str
    below: str = ""


def tiles(result: Result, prices: Prices | None) -> list[Tile]:
    """Build the headline: accuracy, tokens and cost of the best system, or what was saved."""
    lines = [line.priced(prices) for line in systems(result)]
    if lines:
        best = max(
            lines, key=lambda each: (each.accuracy.value or 0.0, -(each.value("tokens_in") or 0.0))
        )
        return [
            Tile(f"{name}, {best.name}", str(figure), _first(lines[0], best, each))
            for each, name in HEADLINE.items()
            if (figure := best.figures.get(each)) is not None
        ]
    figures = {figure.name: figure for figure in map(Figure.of_row, reversed(result.figures))}
    return [
        Tile(name, str(figures[each]), interval(figures[each].bounds))
        for each, name in SAVED.items()
        if each in figures
    ]


def _first(first: System, best: System, name: str) -> str:
    figure = first.figures.get(name)
    return "" if first is best or figure is None else f"{first.name}: {figure}"


def findings(result: Result) -> list[str]:
    """Return sentences about the systems; empty if there are fewer than two."""
    lines = systems(result)
    if len(lines) < 2:
        return []
    return [visible(each) for each in (*_best(lines), *_compared(lines), *_degraded(lines))]


def _best(lines: Sequence[System]) -> Iterator[str]:
    top = max(line.accuracy.value or 0.0 for line in lines)
    best = [line for line in lines if line.accuracy.value == top]
    bounds = best[0].accuracy.bounds
    within = "" if bounds is None else f" (95 % interval {interval(bounds)})"
    names, verb = " and ".join(line.name for line in best), "has" if len(best) == 1 else "have"
    yield f"{names} {verb} the highest accuracy: {number(top)}{within}."


def _compared(lines: Sequence[System]) -> Iterator[str]:
    """Yield the differences to the first system whose interval excludes zero, then the others."""
    first, left_open = lines[0].name, []
    for line in lines:
        change = line.accuracy.change
        if change is None or change.bounds is None:
            continue
        if change.bounds[0] <= 0 <= change.bounds[1]:
            left_open.append(line.name)
        else:
            verb = "above" if (change.value or 0) > 0 else "below"
            yield f"{line.name} lies {verb} {first}: {change}."
    if left_open:
        names = ", ".join(left_open)
        yield f"Not told apart from {first}, since the interval holds zero: {names}."


def _degraded(lines: Sequence[System]) -> Iterator[str]:
    if failed := sum(line.errors for line in lines):
        verb = "counts" if failed == 1 else "count"
        yield f"{counted(failed, 'answer')} ended in an error and {verb} as wrong."
    shares = {line.name: line.value("noted") or 0.0 for line in lines}
    if noted := [f"{name} ({share:.0%})" for name, share in shares.items() if share > 0]:
        yield f"Something was degraded or left out on some questions: {', '.join(noted)}."
