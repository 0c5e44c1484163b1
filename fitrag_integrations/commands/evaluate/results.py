"""`fitrag evaluate compare` and `report`: verbs that read results, not models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine.options import AsJson
from fitrag_integrations.commands.evaluate.options import (
    Common,
    Outcome,
    Priced,
    rows_of,
    settings_of,
)
from fitrag_integrations.commands.evaluate.terminal import show_figures, show_notes
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.figure import Figure
from fitrag_integrations.evaluation.figures.compare import (
    compared,
    paired,
    setting_differences,
)
from fitrag_integrations.evaluation.figures.summaries import Question
from fitrag_integrations.evaluation.report import html_report
from fitrag_integrations.evaluation.result import Plot, Result, grouped

LONG = 60  # characters of a setting that a note shows


@dataclass(frozen=True)
class EvaluateCompare:
    """Compare each figure of two results, with the interval of the difference.

    Questions are paired by their content. Intervals are at 95 %, by a paired bootstrap; p is
    McNemar's, for measures of right and wrong. Lists the settings that differ.
    """

    first: Annotated[Path, Argument("Result file of an evaluation (its --out).")]
    second: Annotated[Path, Argument("Result file of a later run of the same command.")]
    common: Common = False
    outcome: Outcome = Outcome()

    def run(self) -> None:
        """Compare them."""
        self.outcome.check()
        one, other = Result.read(self.first), Result.read(self.second)
        pairs = paired(one, other, common=self.common)
        figures, differences = compared(pairs, self.outcome.draws), setting_differences(one, other)
        questions = [
            _side_by_side(system, a, b)
            for system, parts in pairs.systems.items()
            for a, b in zip(*parts, strict=True)
        ]
        chosen = {"common": self.common, "kind": one.kind}
        names, draws = [self.first, self.second], self.outcome.draws
        settings = settings_of("compare", names, questions, draws, options=chosen)
        result = Result(
            "compare",
            rows_of(figures),
            questions,
            {**settings, "differences": differences},
            _plots(figures),
            pairs.notes,
        )

        def show() -> None:
            show_figures(figures, f"{one.kind}: {self.first.name} and {self.second.name}")
            for each in differences:
                ends = (str(each[end])[:LONG] for end in ("first", "second"))
                show_notes([f"{each['setting']} differs: {' and '.join(ends)}"])

        summary = {"kind": one.kind, "figures": list(result.figures), "settings": differences}
        self.outcome.publish(result, show, summary={**summary, "notes": list(pairs.notes)})


def _side_by_side(system: str, first: Question, second: Question) -> Question:
    """Set the values and predictions of a question in both results beside each other."""
    both = {"first": first, "second": second}
    return {
        "id": first["id"],
        "question": first.get("question"),
        "system": system,
        "values": {
            f"{name}, {which}": value
            for which, row in both.items()
            for name, value in row["values"].items()
        },
        "predictions": {which: row.get("prediction") for which, row in both.items()},
    }


def _plots(figures: Sequence[Figure]) -> tuple[Plot, ...]:
    """Draw as bars what lies between 0 and 1."""
    drawn = [f for f in figures if all(e is not None and 0 <= e <= 1 for e in f.ends or (None,))]
    series = grouped(
        (f"{figure.who} {which}".strip(), [figure.name, end])
        for figure in drawn
        for which, end in zip(("first", "second"), figure.ends or (), strict=True)
    )
    return (Plot("comparison", "figure", "value", series, kind="bar"),) if series else ()


PAGES = (".html", ".htm")


@dataclass(frozen=True)
class EvaluateReport:
    """Write results into one HTML file: tables, the papers' figures, every question, the settings.

    The page loads nothing from elsewhere, and all texts are escaped. With prices it shows the cost
    of 1,000 questions, if tokens were counted.
    """

    results: Annotated[
        tuple[Path, ...], Argument("Result files: --out of the evaluations, --result of methods.")
    ]
    out: Annotated[Path, Option("HTML page to write.")]
    title: Annotated[str, Option("Title of the page.")] = "Evaluation"
    price: Priced = Priced()
    json: AsJson = False

    def run(self) -> None:
        """Write it."""
        out = self.out
        refuse_if(out.suffix not in PAGES, "--out", str(out), f"a file in {', '.join(PAGES)}")
        results = [Result.read(path) for path in self.results]
        write_whole(out, html_report(results, title=self.title, prices=self.price.prices()))
        size = out.stat().st_size
        if self.json:
            typer.echo(json.dumps({"results": len(results), "out": str(out), "bytes": size}))
            return
        typer.echo(f"{out}: {size / 1e6:.1f} MB, opens in any browser", err=True)
