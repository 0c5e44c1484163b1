"""Figures of decisions: a gate's about retrieving, an evaluator's about what was retrieved (CRAG).

An action is right if it is Correct and a passage has an answer, or Incorrect and none has.
Ambiguous is neither; it is reported as the fraction of questions that were not decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_label, check_number, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.figure import ALL, CONFUSION, Figure
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    Statistic,
    set_figures,
)
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.outcomes import (
    Curve,
    Floats,
    Outcomes,
    Sweep,
    area,
    gate_auc,
    gate_calibration_error,
)
from fitrag_integrations.evaluation.result import (
    Plot,
    content_id,
    each_row,
    grouped,
    question_id,
    set_of,
    with_ids,
)
from fitrag_integrations.types import Action

BINS = 20
SAID = ("p_known", "score", "retrieve")  # outputs of the gate, not part of the question
Measure = Callable[[Outcomes], float | None]
KNOWLEDGE: dict[str, Measure | None] = {
    "accuracy of the gate": None,
    "AUC": gate_auc,
    "calibration error": gate_calibration_error,
    "share of retrieval": None,
}
"""Figures of a gate about what is known; None for those that are means over the questions."""
ANSWERS: dict[str, Measure | None] = {
    "accuracy of the answers": None,
    "never retrieving": None,
    "always retrieving": None,
    "oracle": None,
    "sweep area": area,
    "best point: accuracy": lambda o: float(Curve.of(o).accuracy.max()),
    "best point: share": lambda o: float((curve := Curve.of(o)).share[curve.best]),
    "best accuracy retrieving for half": lambda o: max(
        (curve := Curve.of(o)).accuracy[curve.share <= 0.5].tolist(), default=None
    ),
}
"""Figures of the answers that a gate leads to, for rows with `right_with`."""


def _values(outcomes: Outcomes, threshold: float) -> dict[str, NDArray[Any]]:
    """Return what a gate did at a threshold, by measure, one entry per question."""
    retrieved = outcomes.p_known <= threshold
    found: dict[str, NDArray[Any]] = {
        "accuracy of the gate": retrieved == (outcomes.known <= 0),
        "share of retrieval": retrieved,
        "p_known": outcomes.p_known,
    }
    without, right_with = outcomes.without, outcomes.right_with
    if right_with is not None:
        found |= {
            "accuracy of the answers": np.where(retrieved, right_with, without),
            "never retrieving": without,
            "always retrieving": right_with,
            "oracle": np.maximum(without, right_with),
        }
    return found


def gate_figures(outcomes: Outcomes, threshold: float, draws: Draws) -> list[Figure]:
    """Compute the figures of a gate, with their intervals; None for undefined values.

    Args:
        outcomes: Labeled questions with the gate's scores.
        threshold: Threshold of the gate.
        draws: Settings of the bootstrap.
    """
    size, values = len(outcomes), _values(outcomes, threshold)
    measures = KNOWLEDGE if outcomes.right_with is None else KNOWLEDGE | ANSWERS
    found = list[Figure]()
    for name, measure in measures.items():
        if measure is None:
            found.append(Figure(name, float(np.mean(values[name])), draws.mean(values[name]), size))
        else:

            def of_drawn(places: Any, of: Measure = measure) -> float | None:
                return of(outcomes.take(places))

            found.append(Figure(name, measure(outcomes), draws.bounds(of_drawn, size), size))
    return found


def gate_rows(rows: Sequence[Row], outcomes: Outcomes, threshold: float) -> list[Question]:
    """Build the `per_question` rows of a gate.

    A row without a question is identified by its labels; such rows pair by their order only.

    Args:
        rows: Rows as they were read.
        outcomes: Their outcomes, in the same order.
        threshold: Threshold of the gate.
    """
    columns = _values(outcomes, threshold)
    made: list[Question] = []
    for at, row in enumerate(rows):
        question, answers = row.get("question"), row.get("answers")
        if isinstance(question, str) and question.strip():
            name = question_id(question, answers if isinstance(answers, list) else ())
        else:
            name = content_id({key: value for key, value in row.items() if key not in SAID})
        values = {key: float(column[at]) for key, column in columns.items() if key != "oracle"}
        pairs = {"AUC": [[values["p_known"], int(outcomes.known[at])]]}
        shared = {"id": name, "question": question, "set": set_of(row), "system": ""}
        made.append({**shared, "values": values, "pairs": pairs})
    return with_ids(made)


def histogram(
    name: str, x: str, values: Mapping[str, Sequence[float] | Floats], edges: Floats
) -> Plot:
    """Build a plot of how values are spread.

    Args:
        name: Name of the plot.
        x: Name of the values.
        values: Values by series.
        edges: Edges of the bins.
    """
    series = {
        each: [
            [float(left), int(height)]
            for left, height in zip(edges, np.histogram(own, edges)[0], strict=False)
        ]
        for each, own in values.items()
    }
    return Plot(name, x, "questions", series, kind="histogram")


def gate_plots(outcomes: Outcomes, threshold: float) -> tuple[Plot, ...]:
    """Build the plots of the sweep (IK, Figure 1), with the threshold marked, and of the scores."""
    known, sweep = outcomes.known > 0, Sweep.of(outcomes)
    spread = {"known": outcomes.p_known[known], "unknown": outcomes.p_known[~known]}
    levels = {"no retrieval": sweep.never, "always": sweep.always, "oracle": sweep.oracle}
    return Plot(
        "sweep",
        "share of questions retrieved for",
        "accuracy",
        {"gate": [[point.share, point.accuracy] for point in sweep.points]},
        levels={name: value for name, value in levels.items() if value is not None},
        marks={
            f"threshold {threshold:g}": (outcomes.share(threshold), outcomes.accuracy(threshold))
        },
    ), histogram("scores", "p_known", spread, np.linspace(0, 1, BINS + 1))


def gate_statistics(questions: Sequence[Question]) -> dict[str, Statistic]:
    """Return the figures of a gate that are not means, as functions of the drawn questions."""
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


DECIDED, RIGHT = "decided", "right where decided"
BEST, EACH = "AUC of the best grade", "AUC of each grade"
ACTION_MEANS = (
    RIGHT,
    "right where correct",
    "right where incorrect",
    DECIDED,
    "an answer is there",
)
TRUTHS = {True: "an answer is there", False: "no answer is there"}


def route_rows(rows: Sequence[Row]) -> list[Question]:
    """Judge the action of every row, and return the `per_question` rows in the same order.

    Reads question, action, passages[{title, text, has_answer}], and grades[] where they are known;
    a missing has_answer is computed from answers. Raises `InputError` naming the row.
    """

    def judged(row: Row) -> Question:
        question = check_text("question", row.get("question"), blank=False)
        held, given = labels(row), row.get("grades")
        if given is not None and (not isinstance(given, list) or len(given) != len(held)):
            raise InputError.of("grades", given=given, allowed=f"a list of {len(held)} numbers")
        grades = [
            check_number(f"grades[{i}]", g, low=-1.0, high=1.0) for i, g in enumerate(given or ())
        ]
        refuse_if(
            row.get("action") not in list(Action), "action", row.get("action"), ", ".join(Action)
        )
        action, truth = Action(row["action"]), any(held)
        decided = action is not Action.AMBIGUOUS
        values: dict[str, float] = {DECIDED: float(decided), TRUTHS[True]: float(truth)}
        if decided:
            right = float(truth == (action is Action.CORRECT))
            values |= {RIGHT: right, f"right where {action.value}": right}
        each = [[g, h] for g, h in zip(grades, held, strict=True)] if grades else []
        return {
            "id": question_id(question, gold(row) if row.get("answers") else []),
            "question": question,
            "set": set_of(row),
            "system": "",
            "action": action.value,
            "truth": truth,
            "grades": grades,
            "values": values,
            "pairs": {BEST: [[max(grades), int(truth)]], EACH: each} if grades else {},
        }

    return with_ids(each_row(rows, judged))


def labels(row: Row) -> list[int]:
    """Return has_answer of every passage, 0 or 1: the row's own, else computed from answers."""
    passages = row.get("passages")
    if not isinstance(passages, list) or not all(isinstance(p, Mapping) for p in passages):
        raise InputError.of("passages", given=passages, allowed="a list of objects with a text")
    own = [passage.get("has_answer") for passage in passages]
    if None not in own:
        return [check_label(f"passages[{i}].has_answer", value) for i, value in enumerate(own)]
    answers = gold(row)
    texts = (f"{p.get('title') or ''} {check_text('text', p.get('text'))}" for p in passages)
    return [int(contains_answer(text, answers)) for text in texts]


def route_figures(questions: Sequence[Question], draws: Draws) -> list[Figure]:
    """Compute the shares and areas for every set, and the confusion over all questions."""
    return set_figures(questions, draws, ACTION_MEANS, (BEST, EACH)) + confusion(questions)


def confusion(questions: Sequence[Question]) -> list[Figure]:
    """Count the questions of each action, by whether an answer is there."""
    return [
        Figure(
            CONFUSION,
            sum(q["action"] == action and q["truth"] == truth for q in questions),
            of={"set": ALL, "action": action.value, "truth": name},
        )
        for action in Action
        for truth, name in TRUTHS.items()
    ]


def route_plots(questions: Sequence[Question]) -> tuple[Plot, ...]:
    """Build the plots of the confusion, and of the best grades with and without an answer."""
    counts = grouped((f.of["truth"], [f.of["action"], f.value]) for f in confusion(questions))
    bars = Plot("actions", "action", "questions", counts, kind="bar")
    if not any(q["grades"] for q in questions):
        return (bars,)
    best = {
        name: [max(q["grades"]) for q in questions if q["truth"] == truth and q["grades"]]
        for truth, name in TRUTHS.items()
    }
    return bars, histogram("best grades", "best grade", best, np.linspace(-1, 1, BINS + 1))
