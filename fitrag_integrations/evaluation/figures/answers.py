"""Compare the answers of one or several systems to the same questions.

Accuracy is by inclusion; see `judging` for the measures. A system is a file of answers, or one of
the methods in a file of `fitrag evaluate methods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fitrag_integrations.core.checks import check_number, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import normalize
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.summaries import (
    ALL,
    Draws,
    Figure,
    Question,
    by_set,
    column,
    difference,
    mean_row,
)
from fitrag_integrations.evaluation.judging import MEASURES, gold, judged, predicted
from fitrag_integrations.evaluation.questions import numbered, question_id
from fitrag_integrations.evaluation.result import Plot
from fitrag_integrations.evaluation.trace_fields import TELLS

SPENT = ("tokens_in", "tokens_out", "retriever_calls", "seconds")
COST = "cost of a thousand questions"
SETS = ("set", "dataset")  # the fields that name a row's data set
SHOWN = ("notes", "error", *TELLS)


def answer_rows(
    rows: Sequence[Row], system: str = "", prices: Prices | None = None
) -> list[Question]:
    """Judge every row; gives the `per_question` rows of a `Result`, in the same order.

    Reads question, answers, and prediction or answer; a `method` in a row names its system.
    `prices` need `tokens_in` and `tokens_out` in every row. Raises `InputError` naming the row.
    """
    made = []
    for place, row in enumerate(rows, start=1):
        try:
            made.append(_judged(row, system, prices))
        except InputError as error:
            raise InputError(f"row {place}: {error}") from error
    return with_ids(made)


def with_ids(made: Sequence[Row]) -> list[Question]:
    """Tell apart questions that one system was asked twice."""
    ids = numbered(f"{row['system']}\0{row['id']}" for row in made)
    return [{**row, "id": each.partition("\0")[2]} for row, each in zip(made, ids, strict=True)]


def set_of(row: Row) -> str:
    """Name a row's data set, the empty text where it does not."""
    return str(next((row[name] for name in SETS if row.get(name)), ""))


def with_gold(rows: Sequence[Row], golden: Iterable[Row]) -> list[dict[str, Any]]:
    """Take answers, choices and set from other rows of the same question, case and marks aside.

    Raises `InputError` for a question that is not among them.
    """
    known: dict[str, Row] = {}
    for row in golden:
        known.setdefault(normalize(check_text("question", row.get("question"))), row)
    made = []
    for place, row in enumerate(rows, start=1):
        found = known.get(normalize(check_text("question", row.get("question"))))
        if found is None:
            given = row.get("question")
            raise InputError.of(f"row {place}: question", given=given, allowed="one of --gold")
        brought = ("answers", "choices", "answer_groups", *SETS)
        made.append({**row, **{name: found[name] for name in brought if name in found}})
    return made


def answer_figures(questions: Sequence[Question], draws: Draws) -> list[Figure]:
    """Average each measure for every set and system, and compare systems with the first.

    Raises `InputError` where a system was asked other questions than the first.
    """
    systems = list(dict.fromkeys(str(q["system"]) for q in questions))
    rows = []
    for name, part in by_set(questions).items():
        asked = {each: _in_order(part, each) for each in systems}
        for measure in (*MEASURES, *SPENT, COST) if name == ALL else MEASURES:
            for system in systems:
                row = mean_row(asked[system], measure, draws, set=name, system=system)
                if row is not None:
                    rows.append({**row, **_to_first(asked, systems[0], system, measure, draws)})
    return rows


def answer_plots(figures: Sequence[Figure], questions: Sequence[Question]) -> tuple[Plot, ...]:
    """Draw the measures as bars, and accuracy against tokens where they were counted."""
    several = len({row["system"] for row in figures}) > 1
    series: dict[str, list[list[Any]]] = {}
    for row in figures:
        if row["figure"] in MEASURES and (row["set"] == ALL or not several):
            name = row["system"] if several else row["set"]
            series.setdefault(name, []).append([row["figure"], row["value"]])
    bars = Plot("answers", "measure", "share", series, kind="bar")
    points = {
        str(row["system"]) or "answers": [[_tokens(questions, row["system"]), row["value"]]]
        for row in figures
        if row["figure"] == "accuracy" and row["set"] == ALL
    }
    if any(each[0][0] is None for each in points.values()):
        return (bars,)
    name = "accuracy against tokens"
    return bars, Plot(name, "tokens given, a question", "accuracy", points, kind="points")


def _judged(row: Row, system: str, prices: Prices | None) -> dict[str, Any]:
    question, answers = check_text("question", row.get("question"), blank=False), gold(row)
    said = predicted(row)
    method = str(row.get("method") or "")
    values = judged(said, row) | _spent(row, prices)
    shown = {name: row[name] for name in SHOWN if row.get(name)}
    return {
        "id": question_id(question, answers),
        "question": question,
        "set": set_of(row),
        "system": f"{system}/{method}" if system and method else system or method,
        "answers": answers,
        "prediction": said,
        "values": values,
        **shown,
    }


def _spent(row: Row, prices: Prices | None) -> dict[str, float]:
    """Take what was counted; with prices the tokens have to be there."""
    counted = {
        name: check_number(name, row[name], low=0.0) for name in SPENT if row.get(name) is not None
    }
    if prices is None:
        return counted
    for name in ("tokens_in", "tokens_out"):
        if name not in counted:
            raise InputError.of(name, given=None, allowed="a count, where prices are given")
    asked = counted.get("retriever_calls", 0.0)
    tokens = {name: counted[name] for name in ("tokens_in", "tokens_out")}
    return counted | {COST: prices.per_thousand(**tokens, retriever_calls=asked)}


def _in_order(questions: Sequence[Question], system: str) -> list[Question]:
    return sorted((q for q in questions if q["system"] == system), key=lambda q: str(q["id"]))


def _to_first(
    asked: Mapping[str, Sequence[Question]], first: str, system: str, measure: str, draws: Draws
) -> Figure:
    if system == first:
        return {}
    one, other = asked[first], asked[system]
    if [q["id"] for q in one] != [q["id"] for q in other]:
        given = f"other questions for {system!r} than for {first!r}"
        allowed = "the same questions and answers, or --common for those in both"
        raise InputError.of("rows", given=given, allowed=allowed)
    base, own = column(one, measure), column(other, measure)
    if len(base) != len(own):
        return {}
    told = difference(base, own, draws)
    return told if measure in MEASURES else {**told, "p": None}


def _tokens(questions: Sequence[Question], system: str) -> float | None:
    counted = column([q for q in questions if q["system"] == system], "tokens_in")
    return sum(counted) / len(counted) if counted else None
