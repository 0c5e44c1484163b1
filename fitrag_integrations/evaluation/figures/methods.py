"""Set methods side by side: what their answers are worth, and what they cost.

Costs are read off the trace of each question. The port of a step says who was asked, and its items
and answers how much; no model is watched at work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.core.show import Table
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.intervals import paired_interval
from fitrag_integrations.flow import Step
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Passage

RETRIEVING = frozenset(("retrieve", "search"))
WRITING = frozenset(
    ("generate", "draft", "rewrite", "judge", "continue", "ensemble", "reflect", "p_yes", "rescore")
)
"""Ports behind which a language model stands. Gates, scorers and evaluators are none."""
READING = "read"
AVERAGED = ("f1", "retriever_calls", "llm_calls", "tokens_in", "tokens_out", "seconds")


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


def _tokens(value: Any, count_tokens: TokenCounter) -> int:
    """Count the texts in what a port was given or gave; numbers and verdicts are none."""
    if isinstance(value, str):
        return count_tokens(value)
    if isinstance(value, Passage):
        return count_tokens(f"{value.title} {value.text}")
    if isinstance(value, Sequence):
        return sum(_tokens(each, count_tokens) for each in value)
    text = getattr(value, "text", None)
    return count_tokens(text) if isinstance(text, str) else 0


@dataclass(frozen=True, slots=True)
class MethodFigures(Record):
    """Hold a method's line in the table.

    `accuracy` is the share of questions whose answer holds a gold one as whole tokens, and
    `retrieval` that of questions for which anything was retrieved. Calls, tokens, seconds and F1
    are averages per question. `noted` is the share of questions on which something was degraded or
    left out, as the notes of their contexts say. `difference` is the accuracy less the first
    method's, from `low` to `high` in the bootstrap over questions; all three are None for the
    first. A question that ended in an error, of which there are `errors`, counts as answered
    wrongly.
    """

    method: str
    questions: int
    errors: int
    accuracy: float
    f1: float
    retrieval: float
    retriever_calls: float
    llm_calls: float
    tokens_in: float
    tokens_out: float
    seconds: float
    noted: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None


def methods_table(
    rows: Iterable[Row],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[MethodFigures]:
    """Compute each method's line, in the order in which the methods first appear.

    Reads method, row (the number of the question), correct, f1, retrieved, retriever_calls,
    llm_calls, tokens_in, tokens_out, seconds, notes, and error where there was one. Raises
    `InputError` where the methods were not asked the same questions.
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
        right = [float(row["correct"]) for row in asked]
        compared: tuple[float | None, float | None, float | None] = (None, None, None)
        if first is not None:
            bounds = paired_interval(
                right, first, confidence=confidence, resamples=resamples, seed=seed
            )
            compared = (_mean(right) - _mean(first), *bounds)
        first = right if first is None else first
        lines.append(_figures(name, asked, compared))
    return Table(lines)


def _figures(
    name: str,
    asked: Sequence[Row],
    compared: tuple[float | None, float | None, float | None],
) -> MethodFigures:
    averages = {column: _mean([float(row[column]) for row in asked]) for column in AVERAGED}
    difference, low, high = compared
    return MethodFigures(
        method=name,
        questions=len(asked),
        errors=sum("error" in row for row in asked),
        accuracy=_mean([float(row["correct"]) for row in asked]),
        retrieval=_mean([float(row["retrieved"]) for row in asked]),
        **averages,
        noted=_mean([float(bool(row["notes"])) for row in asked]),
        difference=difference,
        low=low,
        high=high,
    )


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
