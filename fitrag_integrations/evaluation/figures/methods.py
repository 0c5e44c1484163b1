"""Systems side by side: the accuracy of methods or files of answers, and their cost.

Costs are read from the trace of each question: the port of a step identifies the model, its items
and answers the amount.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.core.show import Shown
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import ALL, Change, Figure, Interval, pair, real
from fitrag_integrations.evaluation.figures.answers import SHOWN
from fitrag_integrations.evaluation.figures.summaries import (
    COST,
    COUNTED,
    Draws,
    Question,
    difference,
)
from fitrag_integrations.evaluation.result import Plot, Result, question_id, set_of, with_ids
from fitrag_integrations.flow import Step
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Passage

ACCURACY = "accuracy"
JUDGED = (
    ACCURACY,
    "accuracy of the answers",
    "accuracy of the gate",
    "right where decided",
    "answer kept",
)
"""Values that judge a question, in order of preference."""
COUNTS = ("questions", "errors")
OUTCOMES = {ACCURACY: "correct", "f1": "f1", "retrieval": "retrieved"}
"""Figures that are means of what a row of a method has, by name."""


@dataclass(frozen=True, slots=True)
class System(Shown):
    """Figures of a system; tokens, calls and seconds are averages per question.

    Args:
        name: Name of the method or file.
        figures: Figures by name. `accuracy` is the fraction of questions whose answer contains a
            gold one as whole tokens, `retrieval` the fraction that retrieved anything, `noted` the
            fraction with a note.
        questions: Number of questions.
        errors: Number of questions that ended in an error; they count as wrong.
    """

    name: str
    figures: Mapping[str, Figure]
    questions: int = 0
    errors: int = 0

    @property
    def accuracy(self) -> Figure:
        """The accuracy."""
        return self.figures[ACCURACY]

    def value(self, name: str) -> float | None:
        """Return a figure's value, None if it is not known."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value

    def cost(self, prices: Prices | None) -> dict[str, float] | None:
        """Return the cost of 1,000 questions by kind; None without prices or tokens."""
        read, written = self.value("tokens_in"), self.value("tokens_out")
        if prices is None or read is None or written is None:
            return None
        asked = self.value("retriever_calls") or 0.0
        return {
            "tokens read": prices.of_counts({"tokens_in": read}),
            "tokens written": prices.of_counts({"tokens_out": written}),
            "retrieval": prices.of_counts({"retriever_calls": asked}),
        }

    def priced(self, prices: Prices | None) -> Self:
        """Return the system with the `cost` of 1,000 questions, if it is known."""
        parts = self.cost(prices)
        if parts is None:
            return self
        cost = Figure("cost", sum(parts.values()), of=self.accuracy.of)
        return replace(self, figures={**self.figures, cost.name: cost})

    def to_dict(self) -> dict[str, object]:
        """Return the line of `evaluate methods`; `low` and `high` bound the difference."""
        change = self.accuracy.change or Change(None)
        low, high = change.bounds or (None, None)
        counts = {"method": self.name, "questions": self.questions, "errors": self.errors}
        values = {name: figure.value for name, figure in self.figures.items()}
        return {**counts, **values, "difference": change.value, "low": low, "high": high}

    @classmethod
    def of_line(cls, line: Row, bounds: Interval | None = None) -> Self:
        """Parse a line of `to_dict`; `bounds` are those of the accuracy."""
        name, difference = str(line.get("method", "")), real(line.get("difference"))
        change = None if difference is None else Change(difference, pair(line, "low", "high"))
        ends = ("difference", "low", "high", *COUNTS)
        values = {each: real(value) for each, value in line.items() if each not in ends}
        figures = {
            each: Figure(each, value, of={"method": name})
            for each, value in values.items()
            if value is not None
        }
        figures[ACCURACY] = replace(figures[ACCURACY], bounds=bounds, change=change)
        return cls(name, figures, *(int(real(line.get(each)) or 0) for each in COUNTS))


def systems(result: Result) -> list[System]:
    """Return the systems of a result in its order; empty for kinds without systems."""
    found: dict[str, dict[str, Figure]] = {}
    made = []
    if result.kind == "methods":
        for row in (row for row in result.figures if real(row.get(ACCURACY)) is not None):
            judged = [right_of(each) for each in _asked(result, str(row.get("method")))]
            known = [right for right in judged if right is not None]
            made.append(System.of_line(row, _bounds(result, known)))
    elif result.kind == "answers":
        for figure in map(Figure.of_row, result.figures):
            if figure.set == ALL and figure.value is not None:
                found.setdefault(figure.of.get("system", ""), {})[figure.name] = figure
        for name, figures in found.items():
            if ACCURACY in figures:
                failed = sum(bool(row.get("error")) for row in _asked(result, name))
                asked = figures[ACCURACY].questions or 0
                made.append(System(name or "answers", figures, asked, failed))
    return made


def right_of(row: Row) -> float | None:
    """Return how right a question's answer is, in [0, 1]; None if it was not judged."""
    values = row.get("values")
    found = [real(values.get(name)) for name in JUDGED] if isinstance(values, Mapping) else []
    return next((value for value in found if value is not None), None)


def system_of(row: Row) -> str:
    """Return the system of a `per_question` row."""
    return str(row.get("system") or row.get("method") or "")


def _bounds(result: Result, values: Sequence[float]) -> Interval | None:
    if not values:
        return None
    resamples, seed = (result.settings.get(each) for each in ("resamples", "seed"))
    return Draws(
        resamples if isinstance(resamples, int) and resamples > 0 else 1000,
        seed if isinstance(seed, int) and seed >= 0 else 0,
    ).mean(values)


def _asked(result: Result, name: str) -> Sequence[Row]:
    return [row for row in result.per_question if system_of(row) == name]


RETRIEVING = frozenset(("retrieve", "search"))
WRITING = frozenset(
    ("generate", "draft", "rewrite", "judge", "continue", "ensemble", "reflect", "p_yes", "rescore")
)
"""Ports of language models; gates, scorers and evaluators are not among them."""
READING = "read"


@dataclass(frozen=True, slots=True)
class Spent(Record):
    """Cost of one question.

    An extractive reader counts as the language model that answers: one call for all passages, and
    its best answer as the output.

    Args:
        retriever_calls: Queries to a retriever or a web search.
        llm_calls: Prompts to a language model.
        tokens_in: Tokens of the prompts.
        tokens_out: Tokens of the generations.
    """

    retriever_calls: int = 0
    llm_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


def spent(steps: Iterable[Step], count_tokens: TokenCounter = approximate_tokens) -> Spent:
    """Sum the costs of a question's steps.

    Args:
        steps: Steps of the question's trace.
        count_tokens: Counter of the tokens of each port's input and output.
    """
    retrievals, calls, given, written = 0, 0, 0, 0
    for step in steps:
        if step.port in RETRIEVING:
            retrievals += step.count
        elif step.port in WRITING:
            calls += step.count
            given += _tokens(step.items, count_tokens)
            written += _tokens(step.answers, count_tokens)
        elif step.port == READING and step.items:
            calls += 1
            question = step.items[0][0]
            given += _tokens([question, *(passage for _, passage in step.items)], count_tokens)
            best = max(step.answers, key=lambda answer: answer.score, default="")
            written += _tokens(best, count_tokens)
    return Spent(retrievals, calls, given, written)


def _tokens(value: object, count_tokens: TokenCounter) -> int:
    """Count the tokens of the texts in a port's input or output."""
    if isinstance(value, str):
        return count_tokens(value)
    if isinstance(value, Passage):
        return count_tokens(f"{value.title} {value.text}")
    if isinstance(value, Sequence):
        return sum(_tokens(each, count_tokens) for each in value)
    text = trait(value, "text", str)
    return 0 if text is None else count_tokens(text)


def methods_table(
    rows: Iterable[Row], draws: Draws | None = None, prices: Prices | None = None
) -> list[System]:
    """Compute each method's figures, in the order in which the methods first appear.

    Args:
        rows: Rows of method, row (the number of the question), correct, f1, retrieved,
            retriever_calls, llm_calls, tokens_in, tokens_out, seconds, notes, and error where there
            was one.
        draws: Settings of the bootstrap.
        prices: Prices; with them there is the `cost` of 1,000 questions.

    Raises:
        InputError: If the methods have different questions.
    """
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        groups.setdefault(row["method"], {})[row["row"]] = row
    first: list[float] = []
    lines = []
    for name, group in groups.items():
        if group.keys() != next(iter(groups.values())).keys():
            given = f"other questions for {name!r} than for {next(iter(groups))!r}"
            raise InputError.of("rows", given=given, allowed="the same questions for every method")
        asked = [group[number] for number in sorted(group)]
        columns = {
            each: [float(row[field]) for row in asked]
            for each, field in {**OUTCOMES, **{each: each for each in COUNTED}}.items()
        }
        columns["noted"] = [float(bool(row["notes"])) for row in asked]
        figures = {
            each: Figure(each, math.fsum(column) / len(column), of={"method": name})
            for each, column in columns.items()
        }
        if first:
            change = difference(first, columns[ACCURACY], draws or Draws(), test=False)
            figures[ACCURACY] = replace(figures[ACCURACY], change=change)
        first = first or columns[ACCURACY]
        line = System(name, figures, len(asked), sum("error" in row for row in asked))
        lines.append(line.priced(prices))
    return lines


def method_rows(rows: Sequence[Row], prices: Prices | None = None) -> list[Question]:
    """Build the `per_question` rows: the answers of each method and their costs."""
    made: list[Question] = []
    for row in rows:
        values = {
            "accuracy": float(row["correct"]),
            "F1": float(row["f1"]),
            **{name: float(row[name]) for name in ("retrieved", *COUNTED)},
        }
        made.append(
            {
                "id": question_id(row["question"], row["answers"]),
                "question": row["question"],
                "set": set_of(row),
                "system": row["method"],
                "answers": row["answers"],
                "prediction": row["answer"],
                "values": values if prices is None else {**values, COST: prices.of_counts(values)},
                **{name: row[name] for name in SHOWN if row.get(name)},
            }
        )
    return with_ids(made)


def method_plots(lines: Sequence[System]) -> tuple[Plot, ...]:
    """Build the plots of accuracy against tokens, and against cost if it is known."""
    y = "accuracy"
    tokens = {line.name: [[line.value("tokens_in"), line.value(y)]] for line in lines}
    plots = [Plot("accuracy against tokens", "tokens given, a question", y, tokens, kind="points")]
    if all("cost" in line.figures for line in lines):
        paid = {line.name: [[line.value("cost"), line.value(y)]] for line in lines}
        plots.append(Plot("accuracy against cost", COST, y, paid, kind="points"))
    return tuple(plots)
