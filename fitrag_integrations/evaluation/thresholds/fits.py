"""Thresholds stored with a model, fitted on judged questions.

CRAG's actions and strips (section 5.3 calls its own thresholds empirical), and a reader's
abstention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.errors import refuse_if

SMALLEST = 0.02  # of the questions: too few for a fraction otherwise


@dataclass(frozen=True, slots=True)
class GradedStrip:
    """Strip with its grade and label.

    Args:
        grade: Grade, in [-1, 1].
        tokens: Length in tokens.
        holds: Whether it contains the answer.
    """

    grade: float
    tokens: int
    holds: bool


def fit_actions(
    best: Sequence[float], holds: Sequence[bool], *, correct: float, incorrect: float
) -> tuple[float, float]:
    """Choose CRAG's two thresholds on the best grade of each question.

    `upper` is the lowest threshold with the required precision at and above it, `lower` the highest
    with the required precision below it, so the band between them, Ambiguous, is as narrow as
    possible. If the two would cross, both are the threshold with the highest accuracy. If no
    threshold reaches a precision, it is set to the end of the scale.

    Args:
        best: Best grade of each question.
        holds: Whether the passages of each question contain the answer.
        correct: Minimum precision of Correct.
        incorrect: Minimum precision of Incorrect.

    Returns:
        Upper and lower threshold.
    """
    refuse_if(
        len(best) != len(holds) or not 0 < sum(holds) < len(holds),
        "rows",
        (len(best), len(holds), sum(holds)),
        "questions with and without an answer, a best grade for each",
    )
    ranked = sorted(zip(best, holds, strict=True))
    least = max(1, round(SMALLEST * len(ranked)))
    uppers = [cut for cut, _, above in _cuts(ranked, least) if _share(above) >= correct]
    lowers = [cut for cut, below, _ in _cuts(ranked, least) if 1 - _share(below) >= incorrect]
    upper, lower = min(uppers, default=1.0), max(lowers, default=-1.0)
    if lower <= upper:
        return upper, lower
    single = max(_cuts(ranked, 1), key=lambda cut: sum(cut[2]) + len(cut[1]) - sum(cut[1]))[0]
    return single, single


def _cuts(
    ranked: Sequence[tuple[float, bool]], least: int
) -> list[tuple[float, list[bool], list[bool]]]:
    """Cut between every two grades that differ; what is below and above, `least` on each side."""
    truths = [truth for _, truth in ranked]
    return [
        ((ranked[i - 1][0] + ranked[i][0]) / 2, truths[:i], truths[i:])
        for i in range(least, len(ranked) - least + 1)
        if ranked[i - 1][0] < ranked[i][0]
    ]


def _share(truths: Sequence[bool]) -> float:
    return sum(truths) / len(truths)


def fit_strip(
    rows: Sequence[Sequence[GradedStrip]], *, survival: float, top_n: int
) -> tuple[float, float, float]:
    """Choose the highest threshold on strips that keeps the answer in enough rows.

    Args:
        rows: Strips of each question.
        survival: Minimum fraction of rows whose answer is in the strips kept.
        top_n: Strips to keep at or above the threshold; the best one if there is none.

    Returns:
        The threshold, the fraction of rows whose answer is kept, and the fraction of tokens kept.
    """
    rows = [row for row in rows if any(strip.holds for strip in row)]
    refuse_if(not rows, "rows", 0, "rows whose answer stands in a strip")
    ranked = [sorted(row, key=lambda strip: -strip.grade) for row in rows]
    whole = sum(strip.tokens for row in rows for strip in row)

    def kept(threshold: float) -> tuple[float, float, float]:
        chosen = [
            [strip for strip in row if strip.grade >= threshold][:top_n] or row[:1]
            for row in ranked
        ]
        survived = sum(any(strip.holds for strip in row) for row in chosen) / len(rows)
        return threshold, survived, sum(strip.tokens for row in chosen for strip in row) / whole

    found = kept(-1.0)
    for step in range(-199, 200):
        figures = kept(step / 200)
        if figures[1] < survival:
            break
        found = figures
    return found


def fit_abstention(rows: Sequence[Any], *, depth: int = 5) -> tuple[float, float]:
    """Choose the score below which a reader abstains.

    The reader answers from the highest-scored of the first passages. The more passages it reads,
    the higher the best score is by chance. A correct answer at or above the threshold is right, and
    so is no answer if none of these passages contains it.

    Args:
        rows: Passages of each question, labeled and read (`training.rows.Labelled`).
        depth: Number of passages that the reader will read.

    Returns:
        The score and its accuracy.
    """
    known = [row for row in rows if row.reader_scores and None not in row.llm_prefer]
    refuse_if(not known, "rows", len(rows), "rows with reader_score, llm_prefer")
    best = [
        max(zip(row.reader_scores[:depth], row.llm_prefer[:depth], strict=True)) for row in known
    ]
    empty = [not any(row.has_answer[:depth]) for row in known]
    grid = [i / 100 for i in range(100)]
    accuracy = {
        t: sum(
            bool(right) if score >= t else none
            for (score, right), none in zip(best, empty, strict=True)
        )
        / len(known)
        for t in grid
    }
    chosen = max(grid, key=accuracy.__getitem__)
    return chosen, accuracy[chosen]
