"""Say in a few sentences what a table of methods shows, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.system import System, systems
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.evaluation.words import counted, interval, number, visible

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
    """Hold a figure of the headline, what it is, and what it is beside."""

    name: str
    value: str
    below: str = ""


def tiles(result: Result, prices: Prices | None) -> list[Tile]:
    """Give accuracy, tokens and cost of the best system, beside the first's; or what was saved."""
    lines = [line.priced(prices) for line in systems(result)]
    if lines:
        best = max(lines, key=_worth)
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


def _worth(line: System) -> tuple[float, float]:
    return line.accuracy.value or 0.0, -(line.value("tokens_in") or 0.0)


def _first(first: System, best: System, name: str) -> str:
    figure = first.figures.get(name)
    return "" if first is best or figure is None else f"{first.name}: {figure}"


def findings(result: Result) -> list[str]:
    """Give the sentences, none for a result that compares no systems."""
    lines = systems(result)
    if len(lines) < 2:
        return []
    return [visible(told) for told in (*_best(lines), *_compared(lines), *_degraded(lines))]


def _best(lines: Sequence[System]) -> Iterator[str]:
    top = max(line.accuracy.value or 0.0 for line in lines)
    best = [line for line in lines if line.accuracy.value == top]
    bounds = best[0].accuracy.bounds
    within = "" if bounds is None else f" (95 % interval {interval(bounds)})"
    names, verb = " and ".join(line.name for line in best), "has" if len(best) == 1 else "have"
    yield f"{names} {verb} the highest accuracy: {number(top)}{within}."


def _compared(lines: Sequence[System]) -> Iterator[str]:
    """Tell which differences to the first system chance hardly explains."""
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
