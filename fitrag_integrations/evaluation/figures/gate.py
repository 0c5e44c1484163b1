"""Turn what a gate said of each question into the parts of a `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.answers import set_of, with_ids
from fitrag_integrations.evaluation.figures.summaries import Question, Statistic
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.evaluation.questions import content_id, question_id
from fitrag_integrations.evaluation.result import Plot
from fitrag_integrations.evaluation.sweep import Sweep, area, gate_calibration_error

BINS = 20
SAID = ("p_known", "score", "retrieve")  # the gate's own words are no part of the question


def gate_rows(rows: Sequence[Row], outcomes: Outcomes, threshold: float) -> list[Question]:
    """Give the `per_question` rows: what came of each question at a threshold.

    A row without a question is known by its labels; such rows can be paired by their order only.
    """
    return with_ids(
        [_question(row, outcomes.take(np.array([at])), threshold) for at, row in enumerate(rows)]
    )


def gate_plots(outcomes: Outcomes) -> tuple[Plot, ...]:
    """Draw the sweep (IK, Figure 1), where it is known what retrieval does, and the scores."""
    edges = np.linspace(0, 1, BINS + 1)
    known = outcomes.known > 0
    series = {}
    for name, part in (("known", known), ("unknown", ~known)):
        heights, _ = np.histogram(outcomes.p_known[part], edges)
        series[name] = [[float(x), int(y)] for x, y in zip(edges, heights, strict=False)]
    histogram = Plot("scores", "p_known", "questions", series, kind="histogram")
    sweep = Sweep.of(outcomes)
    levels = {
        told: value
        for told, value in (
            ("no retrieval", sweep.never),
            ("always", sweep.always),
            ("oracle", sweep.oracle),
        )
        if value is not None
    }
    points = [[point.share, point.accuracy] for point in sweep.points]
    x = "share of questions retrieved for"
    return Plot("sweep", x, "accuracy", {"gate": points}, levels=levels), histogram


def gate_statistics(questions: Sequence[Question]) -> dict[str, Statistic]:
    """Give the figures of a gate that are no means, over any draw of these questions."""
    values = [question["values"] for question in questions]
    known = [question["pairs"]["AUC"][0][1] for question in questions]
    tried = all("always retrieving" in each for each in values)
    without = [each["never retrieving"] for each in values] if tried else known
    columns = [[each["p_known"] for each in values], known, without]
    columns += [[each["always retrieving"] for each in values]] if tried else []
    outcomes = Outcomes(*(np.asarray(column, float) for column in columns))
    found: dict[str, Statistic] = {
        "calibration error": lambda places: gate_calibration_error(outcomes.take(places))
    }
    return found | {"sweep area": lambda places: area(outcomes.take(places))} if tried else found


def _question(row: Row, one: Outcomes, threshold: float) -> dict[str, Any]:
    """Tell of one question; `one` holds nothing but it."""
    score, known = float(one.p_known[0]), int(one.known[0])
    values = {
        "accuracy of the gate": float((score > threshold) == (known > 0)),
        "share of retrieval": one.share(threshold),
        "p_known": score,
    }
    if one.right_with is not None:
        values |= {
            "accuracy of the answers": one.accuracy(threshold),
            "never retrieving": one.accuracy(-1.0),
            "always retrieving": one.accuracy(1.0),
        }
    question = row.get("question")
    if isinstance(question, str) and question.strip():
        answers = row.get("answers")
        name = question_id(question, answers if isinstance(answers, list) else ())
    else:
        name = content_id({key: value for key, value in row.items() if key not in SAID})
    return {
        "id": name,
        "question": question,
        "set": set_of(row),
        "system": "",
        "values": values,
        "pairs": {"AUC": [[score, known]]},
    }
