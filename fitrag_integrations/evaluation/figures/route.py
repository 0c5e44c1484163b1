"""Judge what an evaluator made of retrieval: the three actions against what was retrieved (CRAG).

An action is right where it is Correct and a passage holds an answer, or Incorrect and none does.
Ambiguous is neither: it is told apart, as the share of questions that were not decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fitrag_integrations.core.checks import check_label, check_number, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.figures.figure import ALL, CONFUSION, Figure
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    area_figure,
    by_set,
    mean_figure,
)
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.questions import each_row, question_id, set_of, with_ids
from fitrag_integrations.evaluation.result import Plot
from fitrag_integrations.types import Action

DECIDED, RIGHT = "decided", "right where decided"
BEST, EACH = "AUC of the best grade", "AUC of each grade"
MEANS = (RIGHT, "right where correct", "right where incorrect", DECIDED, "an answer is there")
TRUTHS = {True: "an answer is there", False: "no answer is there"}
BINS = 20


def route_rows(rows: Sequence[Row]) -> list[Question]:
    """Judge every row; gives the `per_question` rows of a `Result`, in the same order.

    Reads question, action, passages[{title, text, has_answer}], and grades[] where they are known;
    a missing has_answer is found by answers. Raises `InputError` naming the row.
    """
    return with_ids(each_row(rows, _judged))


def labels(row: Row) -> list[int]:
    """Give has_answer of every passage, 0 or 1: the row's own, else by its answers."""
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
            *(mean_figure(part, each, draws, set=name) for each in MEANS),
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
            of={"set": ALL, "action": action.value, "truth": told},
        )
        for action in Action
        for truth, told in TRUTHS.items()
    ]


def route_plots(questions: Sequence[Question]) -> tuple[Plot, ...]:
    """Draw the confusion, and the best grades of questions with and without an answer there."""
    counts: dict[str, list[list[object]]] = {}
    for figure in confusion(questions):
        counts.setdefault(figure.of["truth"], []).append([figure.of["action"], figure.value])
    bars = Plot("actions", "action", "questions", counts, kind="bar")
    edges = np.linspace(-1, 1, BINS + 1)
    series = {}
    for truth, told in TRUTHS.items():
        best = [max(q["grades"]) for q in questions if q["truth"] == truth and q["grades"]]
        heights, _ = np.histogram(best, edges)
        series[told] = [[float(x), int(y)] for x, y in zip(edges, heights, strict=False)]
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
