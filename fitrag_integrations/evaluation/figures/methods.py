"""Set methods side by side: what their answers are worth, and what they cost.

Costs are read off the trace of each question. The port of a step says who was asked, and its items
and answers how much; no model is watched at work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.answers import SHOWN
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.summaries import (
    COST,
    COUNTED,
    Draws,
    Question,
    difference,
)
from fitrag_integrations.evaluation.figures.system import System
from fitrag_integrations.evaluation.questions import question_id, set_of, with_ids
from fitrag_integrations.evaluation.result import Plot
from fitrag_integrations.flow import Step
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Passage

RETRIEVING = frozenset(("retrieve", "search"))
WRITING = frozenset(
    ("generate", "draft", "rewrite", "judge", "continue", "ensemble", "reflect", "p_yes", "rescore")
)
"""Ports behind which a language model stands. Gates, scorers and evaluators are none."""
READING = "read"


@dataclass(frozen=True, slots=True)
class Spent(Record):
    """Hold what one question cost.

    `retriever_calls` are the queries asked of a retriever or a web search, `llm_calls` the texts a
    language model was asked to go on with, `tokens_in` and `tokens_out` those it was given and
    those it wrote. An extractive reader stands for the language model that answers: one call for
    all passages, and the best of its answers is what it wrote.
    """

    retriever_calls: int = 0
    llm_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


def spent(steps: Iterable[Step], count_tokens: TokenCounter = approximate_tokens) -> Spent:
    """Add up the steps of one question; tokens of what a port was handed are counted here."""
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
    """Count the texts in what a port was given or gave; numbers and verdicts are none."""
    if isinstance(value, str):
        return count_tokens(value)
    if isinstance(value, Passage):
        return count_tokens(f"{value.title} {value.text}")
    if isinstance(value, Sequence):
        return sum(_tokens(each, count_tokens) for each in value)
    text = getattr(value, "text", None)
    return count_tokens(text) if isinstance(text, str) else 0


def methods_table(
    rows: Iterable[Row], draws: Draws | None = None, prices: Prices | None = None
) -> list[System]:
    """Compute each method's figures, in the order in which the methods first appear.

    Reads method, row (the number of the question), correct, f1, retrieved, retriever_calls,
    llm_calls, tokens_in, tokens_out, seconds, notes, and error where there was one. With prices
    they have a `cost`, that of a thousand questions. Raises `InputError` where the methods were
    not asked the same questions.
    """
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        groups.setdefault(row["method"], {})[row["row"]] = row
    first: list[float] | None = None
    lines = []
    for name, group in groups.items():
        if group.keys() != next(iter(groups.values())).keys():
            given = f"other questions for {name!r} than for {next(iter(groups))!r}"
            raise InputError.of("rows", given=given, allowed="the same questions for every method")
        asked = [group[number] for number in sorted(group)]
        right = _column(asked, "correct")
        change = None
        if first is not None:
            change = difference(first, right, draws or Draws(), test=False)
        first = right if first is None else first
        accuracy = Figure("accuracy", _mean(right), change=change, of={"method": name})
        figures = {accuracy.name: accuracy, **_averages(name, asked)}
        line = System(name, figures, len(asked), sum("error" in row for row in asked))
        lines.append(line.priced(prices))
    return lines


def _averages(name: str, asked: Sequence[Row]) -> dict[str, Figure]:
    """Average what a method spent, F1, and the shares retrieved for and noted."""
    columns = {
        "f1": _column(asked, "f1"),
        "retrieval": _column(asked, "retrieved"),
        **{each: _column(asked, each) for each in COUNTED},
        "noted": [float(bool(row["notes"])) for row in asked],
    }
    return {each: Figure(each, _mean(c), of={"method": name}) for each, c in columns.items()}


def _column(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def method_rows(rows: Sequence[Row], prices: Prices | None = None) -> list[Question]:
    """Give the `per_question` rows: what each method answered, and what that cost."""
    return with_ids([_question(row, prices) for row in rows])


def method_plots(lines: Sequence[System]) -> tuple[Plot, ...]:
    """Draw accuracy against tokens, and against cost where it is known."""
    y = "accuracy"
    tokens = {line.name: [[line.value("tokens_in"), line.value(y)]] for line in lines}
    plots = [Plot("accuracy against tokens", "tokens given, a question", y, tokens, kind="points")]
    if all("cost" in line.figures for line in lines):
        paid = {line.name: [[line.value("cost"), line.value(y)]] for line in lines}
        plots.append(Plot("accuracy against cost", COST, y, paid, kind="points"))
    return tuple(plots)


def _question(row: Row, prices: Prices | None) -> Question:
    values = {"accuracy": float(row["correct"]), "F1": float(row["f1"])}
    values |= {name: float(row[name]) for name in ("retrieved", *COUNTED)}
    return {
        "id": question_id(row["question"], row["answers"]),
        "question": row["question"],
        "set": set_of(row),
        "system": row["method"],
        "answers": row["answers"],
        "prediction": row["answer"],
        "values": values if prices is None else {**values, COST: prices.of_counts(values)},
        **{name: row[name] for name in SHOWN if row.get(name)},
    }
