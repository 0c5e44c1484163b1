"""Figures of decisions: a gate's about retrieving, an evaluator's about what was retrieved (CRAG).

An action is right if it is Correct and a passage has an answer, or Incorrect and none has.
Ambiguous is neither; it is reported as the fraction of questions that were not decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fitrag_integrations.core.checks import check_label, check_number, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.figures.figure import ALL, CONFUSION, Figure, Interval
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    Statistic,
    area_figure,
    by_set,
    mean_figure,
)
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.outcomes import (
    Curve,
    Outcomes,
    Sweep,
    area,
    gate_accuracy,
    gate_auc,
    gate_calibration_error,
)
from fitrag_integrations.evaluation.result import (
    Plot,
    content_id,
    each_row,
    question_id,
    set_of,
    with_ids,
)
from fitrag_integrations.types import Action

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
"""Figures that are means over the questions."""
SAID = ("p_known", "score", "retrieve")  # outputs of the gate, not part of the question


def gate_figures(outcomes: Outcomes, threshold: float, draws: Draws) -> list[Figure]:
    """Compute each figure of a gate at a threshold, with its interval; None if undefined."""
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
        "best point: share": lambda o: float((curve := Curve.of(o)).share[curve.best]),
        "best accuracy retrieving for half": _at_half,
    }


def _at_half(outcomes: Outcomes) -> float | None:
    curve = Curve.of(outcomes)
    allowed = curve.accuracy[curve.share <= 0.5]
    return float(allowed.max()) if len(allowed) else None


def gate_rows(rows: Sequence[Row], outcomes: Outcomes, threshold: float) -> list[Question]:
    """Build the `per_question` rows of a gate at a threshold.

    A row without a question is identified by its labels; such rows pair by their order only.
    """
    return with_ids(
        [_question(row, outcomes.take(np.array([at])), threshold) for at, row in enumerate(rows)]
    )


def gate_plots(outcomes: Outcomes, threshold: float) -> tuple[Plot, ...]:
    """Build the plots of the sweep (IK, Figure 1), with the threshold marked, and of the scores."""
    edges = np.linspace(0, 1, BINS + 1)
    known = outcomes.known > 0
    series = {}
    for name, part in (("known", known), ("unknown", ~known)):
        heights, _ = np.histogram(outcomes.p_known[part], edges)
        series[name] = [[float(x), int(y)] for x, y in zip(edges, heights, strict=False)]
    histogram = Plot("scores", "p_known", "questions", series, kind="histogram")
    sweep = Sweep.of(outcomes)
    levels = {
        name: value
        for name, value in (
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


def _question(row: Row, one: Outcomes, threshold: float) -> Question:
    """Build the row of one question; `one` is its outcome alone."""
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
    return with_ids(each_row(rows, _judged))


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
    found = [
        figure
        for name, part in by_set(questions).items()
        for figure in (
            *(mean_figure(part, each, draws, set=name) for each in ACTION_MEANS),
            *(area_figure(part, each, draws, set=name) for each in (BEST, EACH)),
        )
        if figure is not None
    ]
    return found + confusion(questions)


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
    counts: dict[str, list[list[object]]] = {}
    for figure in confusion(questions):
        counts.setdefault(figure.of["truth"], []).append([figure.of["action"], figure.value])
    bars = Plot("actions", "action", "questions", counts, kind="bar")
    edges = np.linspace(-1, 1, BINS + 1)
    series = {}
    for truth, name in TRUTHS.items():
        best = [max(q["grades"]) for q in questions if q["truth"] == truth and q["grades"]]
        heights, _ = np.histogram(best, edges)
        series[name] = [[float(x), int(y)] for x, y in zip(edges, heights, strict=False)]
    if not any(q["grades"] for q in questions):
        return (bars,)
    return bars, Plot("best grades", "best grade", "questions", series, kind="histogram")


def _judged(row: Row) -> Question:
    question = check_text("question", row.get("question"), blank=False)
    held, grades = labels(row), _grades(row)
    action, truth = _action(row), any(held)
    answers = gold(row) if row.get("answers") else []
    decided = action is not Action.AMBIGUOUS
    values: dict[str, float] = {DECIDED: float(decided), TRUTHS[True]: float(truth)}
    if decided:
        right = float(truth == (action is Action.CORRECT))
        values |= {RIGHT: right, f"right where {action.value}": right}
    pairs: dict[str, list[list[float]]] = {}
    if grades:
        each = [[g, h] for g, h in zip(grades, held, strict=True)]
        pairs = {BEST: [[max(grades), int(truth)]], EACH: each}
    return {
        "id": question_id(question, answers),
        "question": question,
        "set": set_of(row),
        "system": "",
        "action": action.value,
        "truth": truth,
        "grades": grades,
        "values": values,
        "pairs": pairs,
    }


def _action(row: Row) -> Action:
    given = row.get("action")
    if given not in list(Action):
        raise InputError.of("action", given=given, allowed=", ".join(Action))
    return Action(given)


def _grades(row: Row) -> list[float]:
    given = row.get("grades")
    if given is None:
        return []
    count = len(row["passages"])
    if not isinstance(given, list) or len(given) != count:
        raise InputError.of("grades", given=given, allowed=f"a list of {count} numbers")
    return [check_number(f"grades[{i}]", g, low=-1.0, high=1.0) for i, g in enumerate(given)]
