"""`fitrag evaluate compare`: two results over the same questions, of one day or of two."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.tables import (
    change,
    check_plot,
    draw,
    number,
    probability,
    show,
    show_notes,
)
from fitrag_integrations.evaluation.figures.compare import (
    Pairs,
    compared,
    paired,
    setting_differences,
)
from fitrag_integrations.evaluation.figures.summaries import Draws, Figure
from fitrag_integrations.evaluation.result import Plot, Result, check_result_name

LONG = 60  # characters of a setting that a note shows


def evaluate_compare(
    first: Annotated[Path, typer.Argument(help="A result: what --out of a command wrote.")],
    second: Annotated[Path, typer.Argument(help="A later one, of the same command.")],
    common: evaluating.Common = False,
    out: evaluating.Out = None,
    plot: evaluating.Plot = None,
    resamples: evaluating.Resamples = 1000,
    seed: evaluating.Seed = 0,
    json: options.AsJson = False,
) -> None:
    """Give each figure of two results, and how sure their difference is.

    Questions are paired by their content. The interval of a difference holds 95 % of bootstrap
    samples of the same questions, and p is McNemar's, for what is right or wrong. Settings that
    are not the same are told.
    """
    check_plot(plot)
    check_result_name("--out", out)
    one, other = Result.read(first), Result.read(second)
    pairs = paired(one, other, common=common)
    figures = compared(pairs, Draws(resamples, seed))
    settings = setting_differences(one, other)
    per_question = _questions(pairs)
    result = Result(
        "compare",
        tuple(figures),
        tuple(per_question),
        {
            **settings_of(
                "compare",
                Source([str(first), str(second)], per_question),
                seed=seed,
                resamples=resamples,
                options={"common": common, "kind": one.kind},
            ),
            "differences": settings,
        },
        _plots(figures),
        pairs.notes,
    )
    if out is not None:
        result.write(out)
    if plot is not None:
        draw(result.plots, plot)
    if json:
        told = {"kind": one.kind, "figures": figures, "settings": settings}
        typer.echo(json_.dumps({**told, "notes": list(pairs.notes)}))
        return
    _show(figures, f"{one.kind}: {first.name} and {second.name}")
    show_notes([*pairs.notes, *map(_setting, settings)])


def _questions(pairs: Pairs) -> list[dict[str, Any]]:
    """Give each question once, with both values of everything and both predictions."""
    return [
        {
            "id": a["id"],
            "question": a.get("question"),
            "system": system,
            "values": {
                f"{name}, {which}": value
                for which, row in (("first", a), ("second", b))
                for name, value in row["values"].items()
            },
            "predictions": {"first": a.get("prediction"), "second": b.get("prediction")},
        }
        for system, (first, second) in pairs.systems.items()
        for a, b in zip(first, second, strict=True)
    ]


def _plots(figures: Sequence[Figure]) -> tuple[Plot, ...]:
    """Draw as bars what lies between 0 and 1."""
    shares = [row for row in figures if all(_is_share(row[end]) for end in ("first", "second"))]
    series = {
        f"{row.get('system', '')} {end}".strip(): [
            [each["figure"], each[end]]
            for each in shares
            if each.get("system", "") == row.get("system", "")
        ]
        for row in shares
        for end in ("first", "second")
    }
    return (Plot("comparison", "figure", "value", series, kind="bar"),) if series else ()


def _is_share(value: float | None) -> bool:
    return value is not None and 0 <= value <= 1


def _show(figures: Sequence[Figure], title: str) -> None:
    named = any(row.get("system") for row in figures)
    columns = {"figure": False, **({"system": False} if named else {}), "first": True}
    columns |= {"second": True, "second less first": True, "McNemar's p": True, "questions": True}
    show(title, columns, [_cells(row, named) for row in figures])


def _cells(row: Figure, named: bool) -> list[str]:
    ends = [number(row["first"]), number(row["second"]), change(row), probability(row)]
    return [
        row["figure"],
        *([row.get("system", "-")] if named else []),
        *ends,
        str(row["questions"]),
    ]


def _setting(row: Mapping[str, Any]) -> str:
    """Word a setting that is not the same."""
    one, other = (str(row[end])[:LONG] for end in ("first", "second"))
    return f"{row['setting']} differs: {one} and {other}"
