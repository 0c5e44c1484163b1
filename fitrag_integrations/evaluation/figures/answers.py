"""Compare the answers of one or several systems to the same questions.

Accuracy is by inclusion; see `judging` for the measures. A system is a file of answers, or one of
the methods in a file of `fitrag evaluate methods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fitrag_integrations.core.checks import check_number, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.answers import normalize
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import ALL, Figure
from fitrag_integrations.evaluation.figures.summaries import (
    COST,
    SECONDS,
    Draws,
    Question,
    by_set,
    column,
    difference,
    mean_figure,
)
from fitrag_integrations.evaluation.judging import (
    MEASURES,
    ROUND,
    gold,
    judged,
    predicted,
)
from fitrag_integrations.evaluation.result import (
    SETS,
    Plot,
    each_row,
    grouped,
    question_id,
    set_of,
    with_ids,
)

SPENT = ("tokens_in", "tokens_out", "retriever_calls", SECONDS)
TELLS = ("explained", "decision", "action", "excerpts", "rounds")
SHOWN = ("notes", "error", *TELLS)


def answer_rows(
    rows: Sequence[Row], system: str = "", prices: Prices | None = None
) -> list[Question]:
    """Judge answers.

    Args:
        rows: Rows of question, answers, and prediction or answer; `method` names the system.
        system: Name of the file's system.
        prices: Prices; they require `tokens_in` and `tokens_out` in every row.

    Returns:
        The `per_question` rows of a `Result`, in the same order.

    Raises:
        InputError: If a row lacks a field; names the row.
    """
    return with_ids(each_row(rows, lambda row: _judged(row, system, prices)))


def with_gold(rows: Sequence[Row], golden: Iterable[Row]) -> list[Row]:
    """Copy answers, choices and set from gold rows of the same normalized question.

    Args:
        rows: Rows without gold answers.
        golden: Rows with them.

    Raises:
        InputError: If a question is not among the gold rows.
    """
    known: dict[str, Row] = {}
    for row in golden:
        known.setdefault(normalize(check_text("question", row.get("question"))), row)
    brought = ("answers", "choices", "answer_groups", *SETS)

    def joined(row: Row) -> Row:
        question = check_text("question", row.get("question"))
        found = known.get(normalize(question))
        if found is None:
            raise InputError.of("question", given=question, allowed="one of --gold")
        return {**row, **{name: found[name] for name in brought if name in found}}

    return each_row(rows, joined)


def answer_figures(questions: Sequence[Question], draws: Draws) -> list[Figure]:
    """Average each measure for every set and system, and compare systems with the first.

    Args:
        questions: Rows of `answer_rows`.
        draws: Settings of the bootstrap.

    Raises:
        InputError: If a system has other questions than the first.
    """
    systems = list(dict.fromkeys(str(q["system"]) for q in questions))
    rounds = dict.fromkeys(name for q in questions for name in q["values"] if ROUND.fullmatch(name))
    measures, found = (*MEASURES, *rounds), []
    for label, part in by_set(questions).items():
        ordered = sorted(part, key=lambda q: str(q["id"]))
        asked = {system: [q for q in ordered if q["system"] == system] for system in systems}
        first = asked[systems[0]]
        for measure in (*measures, *SPENT, COST) if label == ALL else measures:
            for system, own in asked.items():
                figure = mean_figure(own, measure, draws, set=label, system=system)
                if figure is None:
                    continue
                if system != systems[0]:
                    if [q["id"] for q in first] != [q["id"] for q in own]:
                        given = f"other questions for {system!r} than for {systems[0]!r}"
                        allowed = "the same questions and answers, or --common for those in both"
                        raise InputError.of("rows", given=given, allowed=allowed)
                    base, values = column(first, measure), column(own, measure)
                    if len(base) == len(values):
                        change = difference(
                            base, values, draws, name=measure, test=measure in MEASURES
                        )
                        figure = replace(figure, change=change)
                found.append(figure)
    return found


def answer_plots(figures: Sequence[Figure], questions: Sequence[Question]) -> tuple[Plot, ...]:
    """Build the bars of the measures, and accuracy against tokens if they were counted."""
    several = len({figure.of["system"] for figure in figures}) > 1
    series = grouped(
        (figure.of["system"] if several else figure.set, [figure.name, figure.value])
        for figure in figures
        if figure.name in MEASURES and (figure.set == ALL or not several)
    )
    bars = Plot("answers", "measure", "share", series, kind="bar")
    points: dict[str, list[list[object]]] = {}
    for figure in figures:
        if figure.name == "accuracy" and figure.set == ALL:
            system = figure.of["system"]
            tokens = column([q for q in questions if q["system"] == system], "tokens_in")
            if not tokens:
                return (bars,)
            points[system or "answers"] = [[sum(tokens) / len(tokens), figure.value]]
    name = "accuracy against tokens"
    return bars, Plot(name, "tokens given, a question", "accuracy", points, kind="points")


def _judged(row: Row, system: str, prices: Prices | None) -> Question:
    question, answers = check_text("question", row.get("question"), blank=False), gold(row)
    said, method = predicted(row), str(row.get("method") or "")
    spent = {
        name: check_number(name, row[name], low=0.0) for name in SPENT if row.get(name) is not None
    }
    values = judged(said, row) | spent
    if prices is not None:
        for name in ("tokens_in", "tokens_out"):
            refuse_if(name not in spent, name, None, "a count, where prices are given")
        values[COST] = prices.of_counts(spent)
    return {
        "id": question_id(question, answers),
        "question": question,
        "set": set_of(row),
        "system": f"{system}/{method}" if system and method else system or method,
        "answers": answers,
        "prediction": said,
        "values": values,
        **{name: row[name] for name in SHOWN if row.get(name)},
    }
