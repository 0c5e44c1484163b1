"""Fit how a whole list is judged: a logistic regression under a ridge, and where its actions part.

Of some strengths of the ridge the one with the least loss over folds is taken. The thresholds are
chosen on what each fold's fit says of lists that it has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.thresholds.actions import fit_actions
from fitrag_integrations.methods.crag.verdict import INPUTS, ListVerdict

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
    told = dict(zip(names, weights.tolist(), strict=True))
    return ListVerdict(told, bias, upper, max(0.0, lower), models), guessed[best]


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
