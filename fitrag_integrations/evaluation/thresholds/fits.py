"""Thresholds stored with a model, fitted on judged questions.

CRAG's actions and strips (section 5.3 calls its own thresholds empirical), the verdict on a whole
list, and a reader's abstention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.outcomes import Floats
from fitrag_integrations.methods.crag.verdict import INPUTS, ListVerdict

SMALLEST = 0.02  # of the questions: too few for a fraction otherwise


@dataclass(frozen=True, slots=True)
class GradedStrip:
    """Strip: its grade, its length in tokens, and whether it contains the answer."""

    grade: float
    tokens: int
    holds: bool


def fit_actions(
    best: Sequence[float], holds: Sequence[bool], *, correct: float, incorrect: float
) -> tuple[float, float]:
    """Choose CRAG's two thresholds on the best grade of each question.

    `upper` is the lowest threshold with at least the precision asked for at and above it, `lower`
    the highest with at least that below it, so the band between them, Ambiguous, is as narrow as
    that allows. Where the two would cross, both are the threshold that is right most often. A
    precision that nothing reaches puts its threshold at the end of the scale.

    Args:
        best: Best grade of each question.
        holds: Whether its passages hold the answer.
        correct: Minimum precision of Correct.
        incorrect: Minimum precision of Incorrect.

    Returns:
        Upper and lower threshold.
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
    """Choose the highest threshold on strips under which the answer still survives often enough.

    Args:
        rows: Strips of each question.
        survival: Minimum fraction of rows whose answer is in what is kept.
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


RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
FOLDS = 5
FEWEST = 4 * FOLDS  # lists of each kind
_STEPS, _NEAR = 50, 1e-8


def fit_verdict(
    numbers: Sequence[Mapping[str, float]],
    holds: Sequence[bool],
    models: Mapping[str, str],
    *,
    correct: float,
    incorrect: float,
    seed: int = 13,
) -> tuple[ListVerdict, Floats]:
    """Fit a verdict on lists of passages.

    Args:
        numbers: The `list_numbers` of each list.
        holds: Whether it has a passage with the answer.
        models: Names of the models that graded, stored with the verdict.
        correct: Minimum precision of Correct.
        incorrect: Minimum precision of Incorrect.
        seed: Seed of the folds.

    Returns:
        The verdict, and the chance of each list by a fit that has not seen it.

    Raises:
        InputError: For fewer than 20 lists of either kind.
    """
    truth = np.array(holds, dtype=np.float64)
    if not FEWEST <= truth.sum() <= len(truth) - FEWEST:
        allowed = f"at least {FEWEST} lists with the answer and as many without"
        raise InputError.of("rows", given=(int(truth.sum()), len(truth)), allowed=allowed)
    names = [name for name in INPUTS if name in numbers[0]]
    table = np.array([[row[name] for name in names] for row in numbers])
    fold = np.random.default_rng(seed).permutation(len(truth)) % FOLDS
    guessed: dict[float, Floats] = {}
    for ridge in RIDGES:
        guessed[ridge] = np.empty(len(truth))
        for each in range(FOLDS):
            weights, bias = _fit(table[fold != each], truth[fold != each], ridge)
            guessed[ridge][fold == each] = chances(table[fold == each] @ weights + bias)

    def loss(ridge: float) -> float:
        kept = np.clip(guessed[ridge], 1e-9, 1 - 1e-9)
        return float(-np.mean(truth * np.log(kept) + (1 - truth) * np.log(1 - kept)))

    best = min(RIDGES, key=loss)
    upper, lower = fit_actions(
        guessed[best].tolist(), truth.astype(bool).tolist(), correct=correct, incorrect=incorrect
    )
    weights, bias = _fit(table, truth, best)
    weighted = dict(zip(names, weights.tolist(), strict=True))
    return ListVerdict(weighted, bias, upper, max(0.0, lower), models), guessed[best]


def _fit(table: Floats, truth: Floats, ridge: float) -> tuple[Floats, float]:
    """Find weights and bias by Newton's steps; the ridge is on standardized numbers."""
    mean, deviation = table.mean(0), table.std(0)
    deviation[deviation < _NEAR] = np.inf  # what never differs has no weight
    alike = np.column_stack([(table - mean) / deviation, np.ones(len(table))])
    penalty = np.append(np.full(table.shape[1], ridge), 0.0)
    found = np.zeros(len(penalty))
    for _ in range(_STEPS):
        chance = chances(alike @ found)
        slope = alike.T @ (truth - chance) - penalty * found
        bent = (alike * (chance * (1 - chance))[:, None]).T @ alike + np.diag(penalty)
        step = np.linalg.solve(bent + _NEAR * np.eye(len(found)), slope)
        found += step
        if np.abs(step).max() < _NEAR:
            break
    weights = found[:-1] / deviation
    return weights, float(found[-1] - weights @ mean)


def chances(logits: Floats) -> Floats:
    """Return the probabilities of logits."""
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))


class Read(Protocol):
    """A question's passages, labelled and read: see `training.rows.Labelled`."""

    @property
    def has_answer(self) -> Sequence[int]: ...
    @property
    def llm_prefer(self) -> Sequence[int | None]: ...
    @property
    def reader_scores(self) -> Sequence[float]: ...


def fit_abstention(rows: Sequence[Read], *, depth: int = 5) -> tuple[float, float]:
    """Choose the score below which a reader should not answer.

    The reader answers from that of the first passages which it scores highest. The more it reads,
    the higher the best score is by chance. Right is a correct answer at or above the threshold, and
    none below it where no such passage holds the answer.

    Args:
        rows: Passages of each question, labeled and read.
        depth: Passages that the reader will be given.

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
