"""Draw systems by what they give and what they take: tokens, differences, costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import Change, Figure
from fitrag_integrations.evaluation.figures.intervals import Interval
from fitrag_integrations.evaluation.figures.system import System, cost_bounds, systems
from fitrag_integrations.evaluation.report.charts import spread
from fitrag_integrations.evaluation.report.charts.svg import swatch
from fitrag_integrations.evaluation.report.charts.upright import Bar, Label
from fitrag_integrations.evaluation.report.tables import Cell, Shown, Table
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.evaluation.words import clipped, counted, interval, number, signed


def system_drawings(result: Result, name: str, prices: Prices | None) -> Iterator[Shown]:
    """Draw the systems of a result by what they give and take, as far as that is known."""
    lines = systems(result)
    counted_all = [line for line in lines if line.value("tokens_in") is not None]
    if counted_all:
        yield _against_tokens(counted_all, f"{name}-tokens")
    if compared := [line for line in lines if line.accuracy.change is not None]:
        yield _differences(lines[0].name, compared, f"{name}-differences")
    costs = {line.name: cost for line in lines if (cost := line.cost(prices))}
    if prices is not None and costs:
        ends = {each: cost_bounds(result, each, prices) for each in costs}
        yield _costs(costs, ends, f"{name}-costs", prices)


def _against_tokens(lines: Sequence[System], name: str) -> Shown:
    """Draw what an answer is worth against what it takes to read (FIT-RAG, Table 1)."""
    bars = [_bar(line.name, line.accuracy, line.value("tokens_in") or 0.0) for line in lines]
    title = "Accuracy against tokens"
    told = f"Accuracy over tokens read per question, of {counted(len(bars), 'system')}."
    label = Label(name, title, told, "tokens read per question", "accuracy")
    rows = [
        [Cell(bar.name), Cell(number(bar.x)), Cell(number(bar.value), interval(bar.bounds))]
        for bar in bars
    ]
    numbers = Table(f"Numbers of: {title}", ["system", "tokens", "accuracy"], rows)
    legend = [(swatch(at), bar.name) for at, bar in enumerate(bars)]
    about = "Up is better, left is cheaper; what FIT-RAG sets side by side in its Table 1."
    return Shown(title, spread.points(label, bars).markup(), numbers, legend, about)


def _bar(name: str, figure: Figure, x: float) -> Bar:
    return Bar(name, figure.value or 0.0, figure.bounds, x)


def _differences(first: str, lines: Sequence[System], name: str) -> Shown:
    """Draw what each system gains or loses against the first, as a table of ablations tells."""
    changes = {line.name: line.accuracy.change or Change(None) for line in lines}
    bars = [Bar(each, change.value or 0.0, change.bounds) for each, change in changes.items()]
    title = f"Accuracy less that of {clipped(first, 30)}"
    told = f"Difference of each system to {first}, with its 95 % interval over the same questions."
    label = Label(name, title, told, f"difference to {first}", "")
    rows = [
        [Cell(each), Cell(signed(change.value), change.told())] for each, change in changes.items()
    ]
    numbers = Table(f"Numbers of: {title}", ["system", "difference"], rows)
    about = "An interval that crosses the upright line leaves open which of the two is better."
    return Shown(title, spread.forest(label, bars).markup(), numbers, about=about)


def _costs(
    costs: Mapping[str, Mapping[str, float]],
    ends: Mapping[str, Interval | None],
    name: str,
    prices: Prices,
) -> Shown:
    title = "Cost of a thousand questions"
    parts = [part for part in next(iter(costs.values())) if any(c[part] for c in costs.values())]
    rows = {each: [cost[part] for part in parts] for each, cost in costs.items()}
    told = f"What a thousand questions cost, made of {', '.join(parts) or 'nothing'}."
    label = Label(name, title, told, "in the currency of the prices", "")
    cells = [
        [Cell(each), *map(Cell, map(number, row)), Cell(number(sum(row)), interval(ends[each]))]
        for each, row in rows.items()
    ]
    head = ["system", *parts, "all"]
    numbers = Table(f"Numbers of: {title}", head, cells)
    legend = [(swatch(at, "area"), part) for at, part in enumerate(parts)]
    about = (
        f"At {prices.tokens_in:g} for a million tokens read, {prices.tokens_out:g} for a million "
        f"written and {prices.retrieval:g} for a thousand retrievals."
    )
    return Shown(title, spread.stacked(label, rows, parts, ends).markup(), numbers, legend, about)
