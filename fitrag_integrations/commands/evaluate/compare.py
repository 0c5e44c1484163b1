"""`fitrag evaluate compare`: two results over the same questions, of one day or of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.evaluate import options
from fitrag_integrations.commands.evaluate.options import Outcome
from fitrag_integrations.commands.evaluate.provenance import Source
from fitrag_integrations.commands.evaluate.tables import show_figures, show_notes
from fitrag_integrations.core.option import Argument
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.compare import (
    Pairs,
    compared,
    paired,
    setting_differences,
)
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.result import Plot, Result

LONG = 60  # characters of a setting that a note shows


@dataclass(frozen=True)
class EvaluateCompare:
    """Give each figure of two results, and how sure their difference is.

    Questions are paired by their content. The interval of a difference holds 95 % of bootstrap
    samples of the same questions, and p is McNemar's, for what is right or wrong. Settings that
    are not the same are told.
    """

    first: Annotated[Path, Argument("A result: what --out of a command wrote.")]
    second: Annotated[Path, Argument("A later one, of the same command.")]
    common: options.Common = False
    outcome: Outcome = Outcome()

    def run(self) -> None:
        """Compare them."""
        self.outcome.check()
        one, other = Result.read(self.first), Result.read(self.second)
        pairs = paired(one, other, common=self.common)
        figures = compared(pairs, self.outcome.draws)
        differences, questions = setting_differences(one, other), _questions(pairs)
        source = Source([str(self.first), str(self.second)], questions)
        chosen = {"common": self.common, "kind": one.kind}
        settings = self.outcome.settings("compare", source, options=chosen)
        result = Result(
            "compare",
            options.rows_of(figures),
            questions,
            {**settings, "differences": differences},
            _plots(figures),
            pairs.notes,
        )

        def show() -> None:
            show_figures(figures, f"{one.kind}: {self.first.name} and {self.second.name}")
            show_notes(map(_setting, differences))

        told = {"kind": one.kind, "figures": list(result.figures), "settings": differences}
        self.outcome.tell(result, {**told, "notes": list(pairs.notes)}, show)


def _questions(pairs: Pairs) -> list[Row]:
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
    series: dict[str, list[list[object]]] = {}
    for figure in figures:
        ends = [end for end in figure.ends or () if end is not None and 0 <= end <= 1]
        for which, end in zip(("first", "second"), ends, strict=True) if len(ends) == 2 else ():
            series.setdefault(f"{figure.who} {which}".strip(), []).append([figure.name, end])
    return (Plot("comparison", "figure", "value", series, kind="bar"),) if series else ()


def _setting(row: Row) -> str:
    """Word a setting that is not the same."""
    one, other = (str(row[end])[:LONG] for end in ("first", "second"))
    return f"{row['setting']} differs: {one} and {other}"
