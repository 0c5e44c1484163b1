"""Turn the answers of several methods into the parts of a `Result`, and their tokens into costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.answers import COST, SHOWN, set_of, with_ids
from fitrag_integrations.evaluation.figures.methods import MethodFigures
from fitrag_integrations.evaluation.figures.summaries import Question
from fitrag_integrations.evaluation.questions import question_id
from fitrag_integrations.evaluation.result import Plot

COUNTED = ("retrieved", "retriever_calls", "llm_calls", "tokens_in", "tokens_out", "seconds")


def method_rows(rows: Sequence[Row], prices: Prices | None = None) -> list[Question]:
    """Give the `per_question` rows: what each method answered, and what that cost."""
    return with_ids([_question(row, prices) for row in rows])


def method_figures(
    table: Sequence[MethodFigures], prices: Prices | None = None
) -> list[dict[str, Any]]:
    """Give the table's lines, with `cost`, that of a thousand questions, where prices are given."""
    return [
        line.to_dict() if prices is None else {**line.to_dict(), "cost": cost_of(line, prices)}
        for line in table
    ]


def cost_of(line: MethodFigures, prices: Prices) -> float:
    """Give what a thousand questions cost by a method."""
    return prices.per_thousand(
        tokens_in=line.tokens_in,
        tokens_out=line.tokens_out,
        retriever_calls=line.retriever_calls,
    )


def method_plots(table: Sequence[MethodFigures], prices: Prices | None = None) -> tuple[Plot, ...]:
    """Draw accuracy against tokens, and against cost where prices are given."""
    y = "accuracy"
    tokens = {line.method: [[line.tokens_in, line.accuracy]] for line in table}
    plots = [Plot("accuracy against tokens", "tokens given, a question", y, tokens, kind="points")]
    if prices is not None:
        paid = {line.method: [[cost_of(line, prices), line.accuracy]] for line in table}
        plots.append(Plot("accuracy against cost", COST, y, paid, kind="points"))
    return tuple(plots)


def _question(row: Row, prices: Prices | None) -> dict[str, Any]:
    values = {"accuracy": float(row["correct"]), "F1": float(row["f1"])}
    values |= {name: float(row[name]) for name in COUNTED}
    if prices is not None:
        counts = {name: values[name] for name in ("tokens_in", "tokens_out", "retriever_calls")}
        values[COST] = prices.per_thousand(**counts)
    return {
        "id": question_id(row["question"], row["answers"]),
        "question": row["question"],
        "set": set_of(row),
        "system": row["method"],
        "answers": row["answers"],
        "prediction": row["answer"],
        "values": values,
        **{name: row[name] for name in SHOWN if row.get(name)},
    }
