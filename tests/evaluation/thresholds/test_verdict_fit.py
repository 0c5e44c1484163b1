"""Fitting how a list is judged."""

import numpy as np
import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.thresholds.fits import fit_verdict

SHARES = {"correct": 0.85, "incorrect": 0.8}


def lists(count=200, seed=1):
    chance = np.random.default_rng(seed)
    holds = chance.random(count) < 0.6
    told = [
        {
            "grade best": float(2 * h - 1 + chance.normal()),
            "llm_prefer best": float(50 * (h - 0.5 + chance.normal())),
            "same answer": float(chance.random()),
            "length": 1.6,
        }
        for h in holds
    ]
    return told, holds.tolist()


def auc(chances, holds):
    up, down = chances[np.array(holds)], chances[~np.array(holds)]
    return float((up[:, None] > down).mean())


def test_the_fit_beats_its_best_number_and_keeps_scales_apart():
    told, holds = lists()
    found, chances = fit_verdict(told, holds, {"evaluator": "e"}, **SHARES)
    best = auc(np.array([row["grade best"] for row in told]), holds)
    assert auc(chances, holds) > best
    assert found.weights["length"] == 0.0  # it never differs
    assert 20 < found.weights["grade best"] / found.weights["llm_prefer best"] < 200
    assert 0 < found.lower <= found.upper < 1 and found.models == {"evaluator": "e"}
    sure = chances >= found.upper
    assert np.array(holds)[sure].mean() >= 0.85
    assert fit_verdict(told, holds, {"evaluator": "e"}, **SHARES)[0] == found
    fresh, truth = lists(seed=2)
    assert auc(np.array([found.chance(row) for row in fresh]), truth) > 0.8


def test_too_few_lists_of_a_kind_are_refused():
    told, _ = lists(60)
    with pytest.raises(InputError, match="at least 20 lists with the answer and as many without"):
        fit_verdict(told, [True] * 45 + [False] * 15, {}, **SHARES)
