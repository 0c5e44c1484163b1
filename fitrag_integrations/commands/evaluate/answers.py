"""`fitrag evaluate answers` and `facts`: correct answers, and texts supported by passages."""

from __future__ import annotations

import json as json_
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine.options import AsJson, Hardware
from fitrag_integrations.commands.evaluate.options import (
    Common,
    InputRows,
    Outcome,
    Priced,
    Published,
    refuse_errors,
    rows_of,
    settings_of,
)
from fitrag_integrations.commands.evaluate.terminal import show, show_figures
from fitrag_integrations.commands.label.llms import Server, load_llm
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.figure import number
from fitrag_integrations.evaluation.figures.answers import (
    answer_figures,
    answer_plots,
    answer_rows,
    with_gold,
)
from fitrag_integrations.evaluation.figures.summaries import Question
from fitrag_integrations.evaluation.judging import (
    ANSWERED,
    FACTS,
    GAMMA,
    LLM,
    PENALIZED,
    each_apart,
    fact_scores,
    llm_judged,
    predicted,
)
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.ports import YesNo


@dataclass(frozen=True, slots=True)
class Judge:
    """Model that judges, if any."""

    judge: Annotated[
        str | None,
        Option("Model that answers Yes or No: a folder, a hub name, or a name on the server."),
    ] = None
    url: Annotated[
        str | None,
        Option("OpenAI-compatible server of the --judge; its key is read from OPENAI_API_KEY."),
    ] = None

    def load(self) -> YesNo:
        """Load it; raise `InputError` where none is named."""
        if self.judge is None:
            raise InputError("Pass `--judge`: a language model says whether a text is right.")
        return Server(self.url).generator(self.judge) or load_llm(self.judge, Hardware())


@dataclass(frozen=True)
class EvaluateAnswers:
    """Judge answers by inclusion, exact match and token F1, for every set.

    Reads question, answers (the gold ones), and prediction or answer, in any of the published
    formats. long_answers adds ROUGE; rounds, which `evaluate methods --traces` writes, adds exact
    match and answer recall of each round. With --judge a language model also rates each answer
    (IK's LLMEval).

    Intervals are at 95 %: Wilson's for fractions, else the bootstrap's. Two systems are compared
    on the same questions, with McNemar's p for accuracies.
    """

    first: InputRows
    second: Annotated[str | None, Argument("Rows of another system with the same questions.")] = (
        None
    )
    shape: Published = Published()
    gold: Annotated[str | None, Option("Rows with the gold answers, if the input has none.")] = None
    common: Common = False
    judge: Judge = Judge()
    apart: Annotated[bool, Option("Count each gold answer separately: STR-EM is SlimPLM's EM.")] = (
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
        systems = [Path(name).name.partition(".")[0] for name in names]
        if len(set(systems)) < len(systems):
            systems = [f"{i}: {name}" for i, name in enumerate(names, 1)]
        questions: list[Question] = []
        for name, given, system in zip(names, rows, systems, strict=True):
            try:
                questions += answer_rows(given, system if len(names) > 1 else "", prices)
            except InputError as error:
                raise error.at(f"{name}, ") from error
        notes = [note for each in loaded for note in each.notes]
        if self.common:
            every, questions = len(questions), _common(questions)
            lost = f"{every - len(questions)} answers to questions that not every system was asked"
            notes += [f"{lost} are left out"] * (len(questions) < every)
        if self.judge.judge is not None:
            said = zip(questions, llm_judged(questions, self.judge.load()), strict=True)
            questions = [{**q, "values": {**q["values"], LLM: value}} for q, value in said]
        figures = answer_figures(questions, self.outcome.draws)
        chosen = {
            "format": ", ".join(each.format for each in loaded),
            "gold": self.gold,
            "common": self.common,
            "judge": self.judge.judge,
            "apart": self.apart,
            "prices": prices and prices.to_dict(),
        }
        read = [row for each in rows for row in each]
        result = Result(
            "answers",
            rows_of(figures),
            questions,
            settings_of("answers", names, read, self.outcome.draws, options=chosen),
            answer_plots(figures, questions),
            notes,
        )
        self.outcome.publish(result, lambda: show_figures(figures, f"{len(questions)} answers"))
        refuse_errors([row.get("error") for row in read])


def _common(questions: Sequence[Question]) -> list[Question]:
    """Keep the questions that every system was asked."""
    systems = {question["system"] for question in questions}
    asked = Counter(question["id"] for question in questions)
    kept = [question for question in questions if asked[question["id"]] == len(systems)]
    refuse_if(not kept, "--common", 0, "questions that all systems answered")
    return kept


@dataclass(frozen=True)
class EvaluateFacts:
    """Measure how much of each text its passages support, as CRAG does for biographies.

    Reads prediction, passages[{title, text}], topic or question, and facts, a list of statements;
    without facts, each sentence is one. The judge answers Yes or No for each. Texts without a
    statement are counted separately, as in FActScore.
    """

    rows: InputRows
    judge: Judge = Judge()
    gamma: Annotated[
        int,
        Option("Number of facts below which a text is penalized as short; 0: no penalty.", min=0),
    ] = GAMMA
    shape: Published = Published()
    out: Annotated[Path | None, Option("Rows with their values to write: .jsonl.")] = None
    export: Annotated[
        Path | None, Option("Input of FActScore's script to write: .jsonl with topic and output.")
    ] = None
    json: AsJson = False

    def run(self) -> None:
        """Judge the facts and print the averages."""
        given = self.shape.read(self.rows).rows
        topics = [str(row.get("topic") or row.get("question")) for row in given]
        written = zip(topics, map(predicted, given), strict=True)
        _write(self.export, [{"topic": topic, "output": text} for topic, text in written])
        values = fact_scores(given, self.judge.load(), gamma=self.gamma)
        _write(self.out, [{**row, "values": v} for row, v in zip(given, values, strict=True)])
        figures = {
            name: sum(known) / len(known)
            for name in (ANSWERED, FACTS, PENALIZED)
            if (known := [each[name] for each in values if name in each])
        }
        if self.json:
            typer.echo(json_.dumps({"texts": len(given), **figures}))
            return
        rows = [[name, number(value)] for name, value in figures.items()]
        show(f"{len(given)} texts", {"figure": False, "value": True}, rows)


def _write(path: Path | None, rows: Sequence[Row]) -> None:
    if path is not None:
        refuse_if(path.suffix != ".jsonl", "a file of rows", str(path), "one ending in .jsonl")
        jsonl.write_jsonl(path, rows)
