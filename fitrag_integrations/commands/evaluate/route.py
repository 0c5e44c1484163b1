"""`fitrag evaluate route`: are the actions right, where they claim something?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import ModelOptions, Quiet
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate import options
from fitrag_integrations.commands.evaluate.cache import answered, cache_of
from fitrag_integrations.commands.evaluate.options import Outcome, Published
from fitrag_integrations.commands.evaluate.provenance import Source, model_entry
from fitrag_integrations.commands.evaluate.tables import show, show_figures
from fitrag_integrations.commands.run.route import chosen_thresholds, route_verb
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.figure import CONFUSION, Figure
from fitrag_integrations.evaluation.figures.route import route_figures, route_plots, route_rows
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.crag.actions import ActionThresholds


@dataclass(frozen=True)
class EvaluateRoute:
    """Compare each question's action with whether a passage holds an answer.

    Reads question and passages[{title, text}], with has_answer in each or answers to find it by,
    and action and grades of `fitrag route`. Passages are graded here where rows have no action or
    a model is named; --upper and --lower decide anew from the grades.
    """

    rows: Annotated[str, Argument("Rows: a file, or hf:NAME:SPLIT.")]
    upper: Annotated[
        float | None, Option("Correct from here on.", min=-1, max=1, default="as in the rows")
    ] = None
    lower: Annotated[
        float | None, Option("Incorrect below.", min=-1, max=1, default="as in the rows")
    ] = None
    shape: Published = Published()
    cache: options.Cache = None
    outcome: Outcome = Outcome()
    model: ModelOptions = ModelOptions()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure it."""
        self.outcome.check()
        loaded = self.shape.read(self.rows)
        given: Sequence[Row] = loaded.rows
        graded = self.model.model is not None or any(row.get("action") is None for row in given)
        if graded:
            given = self._graded(given)
        elif self.upper is not None or self.lower is not None:
            given = [_decided(row, self.upper, self.lower) for row in given]
        questions = route_rows(given)
        figures = route_figures(questions, self.outcome.draws)
        used = {"evaluator": self.model.model} if graded else {}
        chosen = {"format": loaded.format, "upper": self.upper, "lower": self.lower}
        result = Result(
            "route",
            options.rows_of(figures),
            questions,
            self.outcome.settings("route", Source([self.rows], loaded.rows), used, chosen),
            route_plots(questions),
            loaded.notes,
        )

        def show_all() -> None:
            plain = [figure for figure in figures if figure.name != CONFUSION]
            show_figures(plain, f"{len(questions)} questions")
            _show_confusion([figure for figure in figures if figure.name == CONFUSION])

        self.outcome.tell(result, options.told_of(questions, result), show_all)

    def _graded(self, rows: Sequence[Row]) -> list[Row]:
        """Grade the passages of every row, and decide."""
        evaluator = models.load_evaluator(self.model)
        thresholds = chosen_thresholds(evaluator, self.upper, self.lower)
        verb = route_verb(evaluator, thresholds)

        def answer(some: list[Row]) -> list[list[float]]:
            return [
                list(traced.value.grades) for traced in run_many([verb.flow(row) for row in some])
            ]

        named = model_entry("evaluator", self.model.model)
        setup = {"verb": "route", "model": named, "dtype": self.model.dtype}
        asked = [{name: row.get(name) for name in ("question", "passages")} for row in rows]
        path = cache_of(self.cache, self.outcome.out)
        with progress_bar("route", len(rows), shown=not self.quiet) as advance:
            found = answered(asked, answer, setup=setup, path=path, advance=advance)
        return [
            {**row, "grades": grades, "action": thresholds.action(grades).value}
            for row, grades in zip(rows, found, strict=True)
        ]


def _decided(row: Row, upper: float | None, lower: float | None) -> Row:
    if upper is None or lower is None:
        given = "--upper" if lower is None else "--lower"
        raise InputError.of("--upper, --lower", given=given, allowed="both, or a --model")
    grades = row.get("grades")
    if not isinstance(grades, list):
        raise InputError.of("grades", given=grades, allowed="a list, or a --model to grade with")
    return {**row, "action": ActionThresholds(upper, lower).action(grades).value}


def _show_confusion(figures: Sequence[Figure]) -> None:
    truths = list(dict.fromkeys(figure.of["truth"] for figure in figures))
    counts = {(figure.of["action"], figure.of["truth"]): str(figure.value) for figure in figures}
    actions = dict.fromkeys(figure.of["action"] for figure in figures)
    table = [[action, *(counts[action, truth] for truth in truths)] for action in actions]
    show("questions by action", {"action": False, **dict.fromkeys(truths, True)}, table)
