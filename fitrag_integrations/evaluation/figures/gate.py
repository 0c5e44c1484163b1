"""Turn what a gate said of each question into the parts of a `Result`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.intervals import Interval
from fitrag_integrations.evaluation.figures.summaries import Draws, Question, Statistic
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes
from fitrag_integrations.evaluation.questions import content_id, question_id, set_of, with_ids
from fitrag_integrations.evaluation.result import Plot
from fitrag_integrations.evaluation.sweep import (
    Sweep,
    area,
    gate_accuracy,
    gate_auc,
    gate_calibration_error,
)

Measure = Callable[[Outcomes], float | None]
BINS = 20
MEANS = (
    "accuracy of the gate",
    "share of retrieval",
    "accuracy of the answers",
    "never retrieving",
    "always retrieving",
    "oracle",
)
"""Figures that are means of what came of each question."""
SAID = ("p_known", "score", "retrieve")  # the gate's own words are no part of the question


def gate_figures(outcomes: Outcomes, threshold: float, draws: Draws) -> list[Figure]:
    """Give each figure with its bounds, None where the rows do not define it."""
    size = len(outcomes)
    singles = [outcomes.take(np.array([at])) for at in range(size)]

    def bounds(name: str, figure: Measure) -> Interval | None:
        apart = [figure(one) for one in singles] if name in MEANS else [None]
        values = [value for value in apart if value is not None]
        if len(values) == size:
            return draws.mean(values)
        return draws.bounds(lambda places: figure(outcomes.take(places)), size)

    return [
        Figure(name, figure(outcomes), bounds(name, figure), size)
        for name, figure in _measures(outcomes, threshold).items()
    ]


def _measures(outcomes: Outcomes, threshold: float) -> dict[str, Measure]:
    about_known: dict[str, Measure] = {
        "accuracy of the gate": lambda o: gate_accuracy(o, threshold),
        "AUC": gate_auc,
        "calibration error": gate_calibration_error,
        "share of retrieval": lambda o: o.share(threshold),
    }
    if outcomes.right_with is None:
        return about_known
    return about_known | {
        "accuracy of the answers": lambda o: o.accuracy(threshold),
        "never retrieving": lambda o: o.accuracy(-1.0),
        "always retrieving": lambda o: o.accuracy(1.0),
        "oracle": lambda o: Sweep.of(o).oracle,
        "sweep area": area,
        "best point: accuracy": lambda o: float(Curve.of(o).accuracy.max()),
        "best point: share": _best_share,
        "best accuracy retrieving for half": _at_half,
    }


def _best_share(outcomes: Outcomes) -> float:
    curve = Curve.of(outcomes)
    return float(curve.share[curve.best])


def _at_half(outcomes: Outcomes) -> float | None:
    curve = Curve.of(outcomes)
    allowed = curve.accuracy[curve.share <= 0.5]
    return float(allowed.max()) if len(allowed) else None


def gate_rows(rows: Sequence[Row], outcomes: Outcomes, threshold: float) -> list[Question]:
    """Give the `per_question` rows: what came of each question at a threshold.

    A row without a question is known by its labels; such rows can be paired by their order only.
    """
    return with_ids(
        [_question(row, outcomes.take(np.array([at])), threshold) for at, row in enumerate(rows)]
    )


def gate_plots(outcomes: Outcomes, threshold: float) -> tuple[Plot, ...]:
    """Draw the sweep (IK, Figure 1) with the threshold marked on it, and the scores."""
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
    here = {f"threshold {threshold:g}": (outcomes.share(threshold), outcomes.accuracy(threshold))}
    sweep_plot = Plot("sweep", x, "accuracy", {"gate": points}, levels=levels, marks=here)
    return sweep_plot, histogram


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


def _question(row: Row, one: Outcomes, threshold: float) -> Question:
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
