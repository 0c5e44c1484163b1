"""Fit CRAG's thresholds on judged questions; the paper calls its own empirical (section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.errors import InputError

SMALLEST = 0.02  # of the questions: fewer say nothing about a share


@dataclass(frozen=True, slots=True)
class GradedStrip:
    """Hold a strip's grade, its length in tokens, and whether it holds the answer."""

    grade: float
    tokens: int
    holds: bool


def fit_actions(
    best: Sequence[float], holds: Sequence[bool], *, correct: float, incorrect: float
) -> tuple[float, float]:
    """Choose upper and lower threshold from each question's best grade and whether it is answered.

    `upper` is the lowest threshold at and above which at least the share `correct` of the questions
    has a passage with the answer, `lower` the highest below which at least the share `incorrect`
    has none: the band between them, Ambiguous, is no wider than that asks for. Where the two would
    cross there is no such band, and both are the threshold right most often. A share nothing
    reaches puts its threshold at the end of the scale.
    """
    if len(best) != len(holds) or not 0 < sum(holds) < len(holds):
        allowed = "questions with and without an answer, a best grade for each"
        raise InputError.of("rows", given=(len(best), len(holds), sum(holds)), allowed=allowed)
    ranked = sorted(zip(best, holds, strict=True))
    least = max(1, round(SMALLEST * len(ranked)))
    uppers = [cut for cut, _, above in _cuts(ranked, least) if _share(above) >= correct]
    lowers = [cut for cut, below, _ in _cuts(ranked, least) if 1 - _share(below) >= incorrect]
    upper, lower = min(uppers, default=1.0), max(lowers, default=-1.0)
    if lower <= upper:
        return upper, lower
    single = max(_cuts(ranked, 1), key=lambda cut: _right(cut[1], cut[2]))[0]
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


def _right(below: Sequence[bool], above: Sequence[bool]) -> int:
    return sum(above) + len(below) - sum(below)


def fit_strip(
    rows: Sequence[Sequence[GradedStrip]], *, survival: float, top_n: int
) -> tuple[float, float, float]:
    """Choose the highest threshold on strips under which the answer still survives often enough.

    A row holds the strips of one question. Kept are the best `top_n` at or above the threshold,
    or the best one if there is none. Gives the threshold, the share of rows whose answer is in
    what is kept, and the share of tokens kept.
    """
    rows = [row for row in rows if any(strip.holds for strip in row)]
    if not rows:
        raise InputError.of("rows", given=0, allowed="rows whose answer stands in a strip")
    lowest = -1.0
    found = (lowest, *_kept(rows, lowest, top_n))
    for step in range(-199, 200):
        figures = _kept(rows, step / 200, top_n)
        if figures[0] < survival:
            break
        found = (step / 200, *figures)
    return found


def _kept(
    rows: Sequence[Sequence[GradedStrip]], threshold: float, top_n: int
) -> tuple[float, float]:
    chosen = [_chosen(row, threshold, top_n) for row in rows]
    survived = sum(any(strip.holds for strip in kept) for kept in chosen) / len(rows)
    tokens = [sum(strip.tokens for strip in strips) for strips in (*chosen, *rows)]
    return survived, sum(tokens[: len(rows)]) / sum(tokens[len(rows) :])


def _chosen(row: Sequence[GradedStrip], threshold: float, top_n: int) -> list[GradedStrip]:
    ranked = sorted(row, key=lambda strip: -strip.grade)
    return [strip for strip in ranked if strip.grade >= threshold][:top_n] or ranked[:1]
