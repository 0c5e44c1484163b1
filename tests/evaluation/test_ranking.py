"""Figures of ranked passages: against hand-made lists, scikit-learn, and known differences."""

import math

import numpy as np
import pytest

from fitrag_integrations import BiLabelScore, InputError
from fitrag_integrations.evaluation.ranking import (
    Candidates,
    auc,
    ndcg,
    recall_at,
    reciprocal_rank,
    share_at,
)


def question(labels, has, prefer=None, **others):
    prefer = [None] * len(has) if prefer is None else prefer
    scores = tuple(BiLabelScore(h, p) for h, p in zip(has, prefer, strict=True))
    return Candidates(tuple(labels), scores, **others)


@pytest.mark.parametrize(
    ("labels", "recalls", "shares", "rank", "gain"),
    [
        ([1, 0, 0], (1, 1), (1, 1 / 3), 1.0, 1.0),
        ([0, 0, 1], (0, 1), (0, 1 / 3), 1 / 3, 1 / math.log2(4)),
        ([0, 1, 1], (0, 1), (0, 2 / 3), 1 / 2, (1 / math.log2(3) + 0.5) / (1 + 1 / math.log2(3))),
        ([0, 0, 0], (0, 0), (0, 0), 0.0, 0.0),
        ([1], (1, 1), (1, 1), 1.0, 1.0),  # shares are of those that are there
        ([], (0, 0), (0, 0), 0.0, 0.0),
    ],
)
def test_figures_of_one_list(labels, recalls, shares, rank, gain):
    assert (recall_at(labels, 1), recall_at(labels, 3)) == recalls
    assert (share_at(labels, 1), share_at(labels, 3)) == shares
    assert reciprocal_rank(labels) == rank
    assert ndcg(labels) == pytest.approx(gain)


def test_ndcg_looks_no_further_than_k_and_divides_by_the_best_of_k():
    assert ndcg([0] * 10 + [1]) == 0.0
    assert ndcg([1] * 20) == pytest.approx(1.0)
    labels = [0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1]
    gains = 1 / np.log2(np.arange(2, 12))
    assert ndcg(labels) == pytest.approx((np.array(labels[:10]) @ gains) / gains[:5].sum())


def test_ndcg_equals_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels = (rng.random(25) < 0.2).astype(int)
        labels[3] = 1
        expected = metrics.ndcg_score([labels], [-np.arange(25)], k=10)
        assert ndcg(labels.tolist()) == pytest.approx(expected)


def test_the_four_orders_and_their_ties():
    row = question([0, 1, 0, 1], [0.5, 0.2, 0.5, 0.9], [0.1, 0.9, 0.2, 0.1])
    assert row.order("retriever") == [0, 1, 2, 3]
    assert row.order("has_answer") == [3, 0, 2, 1]
    assert row.order("llm_prefer") == [1, 2, 0, 3]
    assert row.order("sum") == [1, 3, 2, 0]
    assert row.labels("sum") == [1, 1, 0, 0]


def test_lists_of_another_length_and_a_k_of_zero_are_refused():
    with pytest.raises(InputError, match="k` must be"):
        recall_at([1], 0)
    with pytest.raises(InputError, match="there are 1 for 2 labels"):
        question([1, 0], [0.1, 0.2], trust=(0.5,))
    with pytest.raises(InputError, match="at least one label"):
        question([], [])


def test_the_answer_is_the_one_trusted_most_among_the_first():
    row = question([0, 1, 1], [0.1, 0.9, 0.5], right=(False, False, True), trust=(0.3, 0.4, 0.9))
    assert row.answered("retriever", 2) is False
    assert row.answered("has_answer", 1) is False
    assert row.answered("has_answer", 2) is True
    assert question([1], [0.5]).answered("retriever", 1) is None
    recorded = question([1, 0], [0.1, 0.9], right=(True, False))
    assert recorded.answered("retriever", 1) is True
    assert recorded.answered("retriever", 2) is None  # nobody said whom to trust


def test_the_area_equals_scikit_learn_with_ties():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores, labels = rng.random(60).round(1), (rng.random(60) < 0.3).astype(int)
        assert auc(scores, labels) == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert auc([0.1, 0.2], [1, 1]) is None
