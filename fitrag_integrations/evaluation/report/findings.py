"""Say in a few sentences what a table of methods shows, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitrag_integrations.evaluation.figures.system import System, systems
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.evaluation.words import counted, interval, number, visible


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
