"""Figures of ranked passages: against hand-made lists, scikit-learn, and known differences."""

import math

import numpy as np
import pytest

from fitrag_integrations import BiLabelScore, InputError
from fitrag_integrations.evaluation.figure import mcnemar, paired_interval
from fitrag_integrations.evaluation.figures.ranking import Ranking, ranking_plots
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.ranking import (
    ORDERS,
    Area,
    Candidates,
    ndcg,
    recall_at,
    reciprocal_rank,
    share_at,
)


def question(labels, has, prefer=None, **others):
    prefer = [None] * len(has) if prefer is None else prefer
    scores = tuple(BiLabelScore(h, p) for h, p in zip(has, prefer, strict=True))
    return Candidates(tuple(labels), scores, **others)


def drawn(count=200, depth=8, seed=3, **others):
    """Draw questions whose has_answer is informative and whose llm_prefer is less so."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        labels = (rng.random(depth) < 0.3).astype(int)
        has = 1 / (1 + np.exp(-(2.5 * labels - 1 + rng.normal(size=depth))))
        prefer = 1 / (1 + np.exp(-(labels - 1 + rng.normal(size=depth))))
        right = tuple(bool(x) for x in labels & (rng.random(depth) < 0.8))
        trust = tuple(rng.random(depth))
        given = {"right": right, "trust": trust, **others}
        rows.append(question(labels.tolist(), has.tolist(), prefer.tolist(), **given))
    return rows


def figure(ranking, order, name, ks=(1, 3), read_ks=(1, 3)):
    found = [f for f in ranking.figures(ks, read_ks) if (f.who, f.name) == (order, name)]
    assert len(found) <= 1
    return found[0] if found else None


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
    with pytest.raises(InputError, match=r"Candidates\.trust` must be"):
        question([1, 0], [0.1, 0.2], trust=(0.5,))
    with pytest.raises(InputError, match="at least one label"):
        question([], [])
    with pytest.raises(InputError, match="at least one question"):
        Ranking([])


def test_the_answer_is_the_one_trusted_most_among_the_first():
    row = question([0, 1, 1], [0.1, 0.9, 0.5], right=(False, False, True), trust=(0.3, 0.4, 0.9))
    assert row.answered("retriever", 2) is False
    assert row.answered("has_answer", 1) is False
    assert row.answered("has_answer", 2) is True
    assert question([1], [0.5]).answered("retriever", 1) is None
    recorded = question([1, 0], [0.1, 0.9], right=(True, False))
    assert recorded.answered("retriever", 1) is True
    assert recorded.answered("retriever", 2) is None  # nobody said whom to trust


def test_every_figure_of_every_order():
    rows = drawn(80)
    ranking = Ranking(rows, Draws(20))
    for by in ORDERS:
        lists = [row.labels(by) for row in rows]
        expected = {
            "R@3": np.mean([recall_at(one, 3) for one in lists]),
            "MRR": np.mean([reciprocal_rank(one) for one in lists]),
            "nDCG@10": np.mean([ndcg(one) for one in lists]),
            "accuracy@3": np.mean([row.answered(by, 3) for row in rows]),
        }
        for name, value in expected.items():
            assert figure(ranking, by, name).value == pytest.approx(value), (by, name)
    plain = [value for found in ranking.figures([1], [1]) for value in found.to_dict().values()]
    assert {type(value) for value in plain} <= {float, str, type(None)}
    values = [figure(ranking, by, "MRR").value for by in ("retriever", "llm_prefer", "has_answer")]
    assert values == sorted(values)


def test_differences_are_paired_and_tested():
    rows = drawn()
    ranking = Ranking(rows, Draws(300, 5))
    found = figure(ranking, "sum", "accuracy@1")
    own = [row.answered("sum", 1) for row in rows]
    base = [row.answered("retriever", 1) for row in rows]
    change, (low, high) = found.change, found.change.bounds
    assert change.value == pytest.approx(np.mean(own) - np.mean(base))
    assert (low, high) == paired_interval(own, base, resamples=300, seed=5)
    assert change.p == mcnemar(own, base)
    assert 0 < low < change.value < high
    assert change.p < 0.01
    assert figure(ranking, "retriever", "accuracy@1").change is None
    assert figure(ranking, "sum", "MRR").change.p is None  # no matter of right or wrong
    same = [question([0, 1], [0.9, 0.1], [0.9, 0.1]) for _ in range(30)]
    changes = [each.change for each in Ranking(same, Draws(50)).figures([1]) if each.change]
    assert changes and {(each.value, each.bounds) for each in changes} == {(0.0, (0.0, 0.0))}


def test_the_area_equals_scikit_learn_for_any_draw():
    metrics = pytest.importorskip("sklearn.metrics")
    rows = drawn(40)
    scores = [[round(v, 1) for v in row.values("sum")] for row in rows]  # with ties
    labels = [row.has_answer for row in rows]
    area = Area(scores, labels)
    rng = np.random.default_rng(1)
    for places in (np.arange(40), rng.integers(0, 40, 40), rng.integers(0, 40, 40)):
        flat = [np.concatenate([x[i] for i in places]) for x in (labels, scores)]
        assert area(places) == pytest.approx(metrics.roc_auc_score(*flat))
    assert Area([[0.1, 0.2]], [[1, 1]]).of_all() is None


def test_calibration_is_of_each_label_against_its_own():
    rows = [
        question([1, 0], [0.95, 0.05], [0.5, 0.5], llm_prefer=labels)
        for labels in ((1, 0), (0, 1), (1, 1), (0, 0))
    ]
    ranking = Ranking(rows, Draws(10))
    assert figure(ranking, "has_answer", "ECE").value == pytest.approx(0.05)
    assert figure(ranking, "llm_prefer", "ECE").value == pytest.approx(0.0)
    assert figure(ranking, "sum", "ECE") is None
    unknown = Ranking([question([1, 0], [0.95, 0.05], [0.5, 0.5])], Draws(10))
    assert figure(unknown, "llm_prefer", "ECE") is None
    half = Ranking([question([1, 0], [0.5, 0.5], [0.75, 0.3], llm_prefer=(1, None))], Draws(10))
    assert figure(half, "llm_prefer", "ECE").value == pytest.approx(0.25)


def test_accuracy_is_over_the_questions_whose_answers_are_known():
    rows = drawn(30)
    unread = question([1, 0], [0.5, 0.6], [0.5, 0.1])
    failed = question([1, 0], [0.5, 0.6], [0.5, 0.1], right=(True, None), trust=(0.1, 0.2))
    ranking = Ranking([*rows, unread, failed], Draws(10))
    assert ranking.answered(1) == rows
    alone = Ranking(rows, Draws(10))
    assert figure(ranking, "sum", "accuracy@1") == figure(alone, "sum", "accuracy@1")
    assert figure(Ranking([unread]), "sum", "accuracy@1") is None


def test_gap_closed_is_over_the_means_of_sets():
    # set a: the retriever has 1/2, we 1, of 1; set b: both have 1/2; one question can not be had
    rows = [question([0, 1], [0.1, 0.9], set="a")] * 3
    rows += [question([0, 1], [0.9, 0.1], set="b"), question([0, 0], [0.1, 0.2], set="b")]
    ours, base, ceiling = (1 + 0.25) / 2, (0.5 + 0.25) / 2, (1 + 0.5) / 2
    expected = (ours - base) / (ceiling - base)
    assert Ranking(rows).gap_closed()["has_answer"] == pytest.approx(expected)
    assert Ranking([question([0, 1], [0.2, 0.7])]).orders == ("retriever", "has_answer")
    full = [question([1, 0], [0.1, 0.9])]
    assert Ranking(full).gap_closed() == {"has_answer": None}  # nothing is to be gained


def test_the_plots_hold_what_was_measured():
    rows = drawn(60)
    ranking = Ranking(rows, Draws(50))
    recall, bars = ranking_plots(ranking, ranking.figures([1], [1, 3]))
    for name, curve in ranking.curves().items():
        assert curve[1] == np.mean([recall_at(row.labels(name), 2) for row in rows])
        assert recall.series[name] == [[k, y] for k, y in enumerate(curve, 1)]
    for by in ORDERS:
        wanted = [[k, figure(ranking, by, f"accuracy@{k}").value] for k in "13"]
        assert bars.series[by] == wanted
    assert len(ranking_plots(ranking, ranking.figures([1]))) == 1
