"""Thresholds stored with a model, fitted on judged questions.

CRAG's actions and strips (section 5.3 calls its own thresholds empirical), the verdict on a whole
list, the stop of the sub-document filter (FIT-RAG, section 4.4.2), and a reader's abstention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.errors import InputError
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


Floats = NDArray[np.float64]
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
    """Fit on the `list_numbers` of lists, and on whether each has a passage with the answer.

    `correct` and `incorrect` are those of `fit_actions`. Gives also the chances of the lists, each
    by a fit that has not seen it. Raises `InputError` for fewer than 20 lists of either kind.
    """
    truth = np.array(holds, dtype=np.float64)
    if not FEWEST <= truth.sum() <= len(truth) - FEWEST:
        allowed = f"at least {FEWEST} lists with the answer and as many without"
        raise InputError.of("rows", given=(int(truth.sum()), len(truth)), allowed=allowed)
    names = [name for name in INPUTS if name in numbers[0]]
    table = np.array([[row[name] for name in names] for row in numbers])
    fold = np.random.default_rng(seed).permutation(len(truth)) % FOLDS
    guessed = {ridge: _held_out(table, truth, fold, ridge) for ridge in RIDGES}
    best = min(RIDGES, key=lambda ridge: _loss(guessed[ridge], truth))
    upper, lower = fit_actions(
        guessed[best].tolist(), truth.astype(bool).tolist(), correct=correct, incorrect=incorrect
    )
    weights, bias = _fit(table, truth, best)
    weighted = dict(zip(names, weights.tolist(), strict=True))
    return ListVerdict(weighted, bias, upper, max(0.0, lower), models), guessed[best]


def _held_out(table: Floats, truth: Floats, fold: NDArray[np.int64], ridge: float) -> Floats:
    chances = np.empty(len(truth))
    for each in range(FOLDS):
        weights, bias = _fit(table[fold != each], truth[fold != each], ridge)
        chances[fold == each] = _chances(table[fold == each] @ weights + bias)
    return chances


def _fit(table: Floats, truth: Floats, ridge: float) -> tuple[Floats, float]:
    """Find weights and bias by Newton's steps; the ridge is on standardized numbers."""
    mean, deviation = table.mean(0), table.std(0)
    deviation[deviation < _NEAR] = np.inf  # what never differs has no weight
    alike = np.column_stack([(table - mean) / deviation, np.ones(len(table))])
    penalty = np.append(np.full(table.shape[1], ridge), 0.0)
    found = np.zeros(len(penalty))
    for _ in range(_STEPS):
        chances = _chances(alike @ found)
        slope = alike.T @ (truth - chances) - penalty * found
        bent = (alike * (chances * (1 - chances))[:, None]).T @ alike + np.diag(penalty)
        step = np.linalg.solve(bent + _NEAR * np.eye(len(found)), slope)
        found += step
        if np.abs(step).max() < _NEAR:
            break
    weights = found[:-1] / deviation
    return weights, float(found[-1] - weights @ mean)


def _chances(logits: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))


def _loss(chances: Floats, truth: Floats) -> float:
    kept = np.clip(chances, 1e-9, 1 - 1e-9)
    return float(-np.mean(truth * np.log(kept) + (1 - truth) * np.log(1 - kept)))


class JudgedCombination(Protocol):
    """A list of excerpts, and what came of it: see `training.eligibility.rows`."""

    @property
    def kinds(self) -> Sequence[str]: ...
    @property
    def scores(self) -> Sequence[object]: ...
    @property
    def eligible(self) -> bool: ...
    @property
    def has_answer(self) -> bool: ...
    @property
    def share(self) -> float: ...


One = TypeVar("One", bound=JudgedCombination, covariant=True)


class Combinations(Protocol[One]):
    """A question's lists of excerpts."""

    @property
    def combinations(self) -> Sequence[One]: ...


def choose_stop(
    rows: Sequence[Combinations[JudgedCombination]],
    chances: Sequence[Sequence[float]],
    *,
    keep: float,
    max_share: float | None = None,
) -> dict[str, float]:
    """Choose the lowest probability at which to stop, over the prefixes of held-out questions.

    Stopping there must leave at least `keep` of the answers that the longest prefix within
    `max_share` holds, and an accuracy of at least `keep` times that one's. Gives the threshold, and
    what stopping there leaves; 1.0 where no lower one is good enough. `chances` go with each row's
    combinations.
    """
    lists = [_prefixes(row, own, max_share) for row, own in zip(rows, chances, strict=True)]
    lists = [one for one in lists if one]
    if not lists:
        allowed = "rows with prefixes: label them with --combinations prefixes or both"
        raise InputError.of("rows", given=len(rows), allowed=allowed)
    held = fmean(one[-1][1].has_answer for one in lists)
    right = fmean(one[-1][1].eligible for one in lists)
    for threshold in [i / 1000 for i in range(1, 1000)]:
        stops = [
            next((each for chance, each in one if chance >= threshold), one[-1][1]) for one in lists
        ]
        answers = fmean(stop.has_answer for stop in stops)
        accuracy = fmean(stop.eligible for stop in stops)
        if answers >= keep * held and accuracy >= keep * right:
            break
    else:
        threshold, stops = 1.0, [one[-1][1] for one in lists]
    return {
        "threshold": threshold,
        "share_kept": fmean(stop.share for stop in stops),
        "answers_kept": fmean(stop.has_answer for stop in stops) / held if held else 1.0,
        "accuracy": fmean(stop.eligible for stop in stops),
        "accuracy_of_all": right,
    }


def _prefixes(
    row: Combinations[JudgedCombination], chances: Sequence[float], max_share: float | None
) -> list[tuple[float, JudgedCombination]]:
    """Return the prefixes at which inference may stop, with their probabilities, shortest first."""
    pairs = zip(chances, row.combinations, strict=True)
    own = sorted((p for p in pairs if "prefixes" in p[1].kinds), key=lambda p: len(p[1].scores))
    return [p for i, p in enumerate(own) if not i or max_share is None or p[1].share <= max_share]


class Read(Protocol):
    """A question's passages, labelled and read: see `training.rows.Labelled`."""

    @property
    def has_answer(self) -> Sequence[int]: ...
    @property
    def llm_prefer(self) -> Sequence[int | None]: ...
    @property
    def reader_scores(self) -> Sequence[float]: ...


def fit_abstention(rows: Sequence[Read], *, depth: int = 5) -> tuple[float, float]:
    """Choose the score under which a reader had better not answer. Gives it and its accuracy.

    The reader answers each question from that of its first `depth` passages which it scores
    highest: the more it reads, the higher the best score by chance, so let `depth` be what it will
    be given. Right is a correct answer at or above the threshold, and none below it where no such
    passage holds the answer.
    """
    known = [row for row in rows if row.reader_scores and None not in row.llm_prefer]
    if not known:
        raise InputError.of("rows", given=len(rows), allowed="rows with reader_score, llm_prefer")
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
