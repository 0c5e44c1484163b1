"""`fitrag evaluate answers`: how many answers are right, of one system or of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.evaluate import options
from fitrag_integrations.commands.evaluate.facts import Judge
from fitrag_integrations.commands.evaluate.options import Outcome, Priced, Published
from fitrag_integrations.commands.evaluate.provenance import Source
from fitrag_integrations.commands.evaluate.tables import show_figures
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.answers import (
    answer_figures,
    answer_plots,
    answer_rows,
    with_gold,
    with_judge,
)
from fitrag_integrations.evaluation.figures.summaries import Question
from fitrag_integrations.evaluation.judging import each_apart
from fitrag_integrations.evaluation.result import Result


@dataclass(frozen=True)
class EvaluateAnswers:
    """Judge answers by inclusion, exact match and token F1, for every set.

    Reads question, answers (the gold ones), and prediction or answer, in any of the published
    shapes; long_answers for ROUGE, and rounds, as --traces of `evaluate methods` keeps them, for
    each round's exact match and answer recall. With --judge a language model says how likely each
    answer is right (IK's LLMEval). Intervals are at 95 %, of shares Wilson's, else the bootstrap's;
    the difference of two systems is over the same questions, with McNemar's p for accuracies.
    """

    first: Annotated[str, Argument("Rows: a file, or hf:NAME:SPLIT.")]
    second: Annotated[str | None, Argument("The same questions, answered by another system.")] = (
        None
    )
    shape: Published = Published()
    gold: Annotated[
        str | None, Option("Rows to take the gold answers from, where a run file has none.")
    ] = None
    common: options.Common = False
    judge: Judge = Judge()
    apart: Annotated[bool, Option("Each gold answer counts by itself: STR-EM is SlimPLM's EM.")] = (
        False
    )
    price: Priced = Priced()
    outcome: Outcome = Outcome()

    def run(self) -> None:
        """Judge them."""
        self.outcome.check()
        prices = self.price.prices()
        names = [self.first] if self.second is None else [self.first, self.second]
        loaded = [self.shape.read(name) for name in names]
        rows: list[Sequence[Row]] = [each.rows for each in loaded]
        if self.gold is not None:
            golden = Published(split=self.shape.split).read(self.gold).rows
            rows = [with_gold(each, golden) for each in rows]
        if self.apart:
            rows = [list(map(each_apart, each)) for each in rows]
        systems = [""] if self.second is None else _systems(names)
        parts = [_rows(*each, prices) for each in zip(names, rows, systems, strict=True)]
        questions, lost = _same(parts, self.common)
        if self.judge.judge is not None:
            questions = with_judge(questions, self.judge.load())
        figures = answer_figures(questions, self.outcome.draws)
        chosen = {
            "format": ", ".join(each.format for each in loaded),
            "gold": self.gold,
            "common": self.common,
            "judge": self.judge.judge,
            "apart": self.apart,
            "prices": prices and prices.to_dict(),
        }
        source = Source(names, [row for each in rows for row in each])
        result = Result(
            "answers",
            options.rows_of(figures),
            questions,
            self.outcome.settings("answers", source, options=chosen),
            answer_plots(figures, questions),
            [*(note for each in loaded for note in each.notes), *lost],
        )
        self.outcome.tell(
            result,
            options.told_of(questions, result),
            lambda: show_figures(figures, f"{len(questions)} answers"),
        )
        options.refuse_errors([row.get("error") for each in rows for row in each])


def _systems(names: Sequence[str]) -> list[str]:
    """Name systems by their files, by the whole path where the names are the same."""
    stems = [Path(name).name.partition(".")[0] for name in names]
    return stems if len(set(stems)) == len(stems) else [f"{i}: {n}" for i, n in enumerate(names, 1)]


def _rows(name: str, rows: Sequence[Row], system: str, prices: Prices | None) -> list[Question]:
    try:
        return answer_rows(rows, system, prices)
    except InputError as error:
        raise InputError(f"{name}, {error}") from error


def _same(parts: Sequence[list[Question]], common: bool) -> tuple[list[Question], list[str]]:
    """Keep the questions that every system was asked, where that is asked for."""
    questions = [question for part in parts for question in part]
    if not common:
        return questions, []
    systems = {question["system"] for question in questions}
    asked = Counter(question["id"] for question in questions)
    kept = [question for question in questions if asked[question["id"]] == len(systems)]
    if not kept:
        raise InputError.of("--common", given=0, allowed="questions that all systems answered")
    lost = len(questions) - len(kept)
    told = f"{lost} answers to questions that not every system was asked are left out"
    return kept, [told] if lost else []
