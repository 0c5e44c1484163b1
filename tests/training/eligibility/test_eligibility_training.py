"""Combinations, the detector's training, and where it stops: by hand, and on toy lists."""

import random

import pytest

from fitrag_integrations import BiLabelScore
from fitrag_integrations.errors import InputError
from fitrag_integrations.models import EligibilityDetector
from fitrag_integrations.training.eligibility import (
    EligibilityPlan,
    choose_stop,
    fit_eligibility,
)
from fitrag_integrations.training.rows import (
    Combination,
    drawn,
    eligibility_rows,
    prefixes,
    skyline,
)

FITTED = {"scorer": "mine", "window": 3, "stride": 1, "per_passage": 1}


def judged(length, *, eligible, share, has=None, kinds=("prefixes",)):
    scores = tuple(BiLabelScore(0.5, 0.5) for _ in range(length))
    return Combination(kinds, scores, (), eligible, eligible if has is None else has, share)


def toy_rows(count=40, seed=1, **more):
    """Write lists in which the answer is in the one window that scores high, if any does."""
    chance, rows = random.Random(seed), []
    for i in range(count):
        place = chance.randint(0, 3)
        scores = [(0.9, 0.9) if place == j else (0.1, chance.random() / 4) for j in range(4)]
        scores.sort(key=sum, reverse=True)
        found = [
            {
                "kinds": ["prefixes"] if n > 1 else ["prefixes", "random"],
                "scores": scores[:n],
                "left": scores[n:],
                "eligible": int(i % 8 > 0),
                "has_answer": int(i % 8 > 0),
                "share": n / 5,
            }
            for n in range(1, 5)
        ]
        row = {"question": f"q{i}", "combinations": found, "fitted_for": FITTED}
        rows.append({**row, **more})
    return rows


def test_the_skyline_is_what_nothing_exceeds():
    scores = [(0.9, 0.1), (0.5, 0.5), (0.5, 0.4), (0.1, 0.9), (0.9, 0.1), (0.4, 0.4)]
    assert skyline(scores) == [0, 1, 3, 4]
    assert skyline([]) == []


def test_draws_are_unlike_each_other_and_repeatable():
    def draw():
        return drawn(6, draws=60, overlap=0.5, chance=random.Random(5))

    found = draw()
    assert found == draw() and len(found) > 5
    for i, one in enumerate(found):
        assert 1 <= len(one) <= 6 and list(one) == sorted(set(one)) and one[-1] < 6
        others = [set(other) for other in found[:i]]
        assert all(len(o & set(one)) / len(o | set(one)) <= 0.5 for o in others)
    every = drawn(2, draws=50, overlap=1.0, chance=random.Random(5))
    assert sorted(every) == [(0,), (0, 1), (1,)]
    assert prefixes(3) == [(0,), (0, 1), (0, 1, 2)]


def test_the_threshold_is_the_lowest_that_loses_few_enough():
    row = [judged(1, eligible=False, share=0.2), judged(2, eligible=True, share=0.4)]
    easy = [judged(1, eligible=True, share=0.2), judged(2, eligible=True, share=0.4)]
    chances = [[0.3, 0.8], [0.6, 0.9]]
    strict = choose_stop([row, easy], chances, keep=1.0)
    assert strict["threshold"] == pytest.approx(0.301)
    assert strict["share_kept"] == pytest.approx(0.3) and strict["answers_kept"] == 1.0
    assert strict["accuracy"] == strict["accuracy_of_all"] == 1.0
    loose = choose_stop([row, easy], chances, keep=0.5)
    assert (loose["threshold"], loose["answers_kept"]) == (0.001, 0.5)
    assert loose["share_kept"] == pytest.approx(0.2)
    never = choose_stop([row], [[0.99995, 0.99999]], keep=1.0)
    assert never["threshold"] == 1.0 and never["share_kept"] == pytest.approx(0.4)
    bounded = choose_stop([row, easy], chances, keep=0.5, max_share=0.3)
    assert bounded["share_kept"] == pytest.approx(0.2)
    with pytest.raises(InputError, match="--combinations prefixes or both"):
        choose_stop([[]], [[]], keep=1.0)


def test_a_trained_detector_knows_its_lists_and_stops_early(tmp_path):
    plan = EligibilityPlan(max_pairs=4, hidden=16, epochs=40, patience=8, rate=5e-3, label="kept")
    figures = fit_eligibility(toy_rows(), tmp_path / "one", plan)
    assert figures["answers_kept"] >= 0.97 and figures["share_kept"] < 0.5
    again = fit_eligibility(toy_rows(), tmp_path / "two", plan)
    files = ("network.safetensors", "model.json")
    same = [
        (tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in files
    ]
    assert figures == again and same == [True, True]
    detector = EligibilityDetector.from_pretrained(tmp_path / "one")
    assert detector.fitted_for == FITTED and detector.fitted.rows == 40
    assert 0.0 < detector.threshold <= 1.0
    assert detector.manifest["trained"]["questions"] == 40


def test_the_rest_can_be_what_decides(tmp_path):
    """What is kept looks alike everywhere; only what is left out tells whether to go on."""
    rows = toy_rows(60)
    for i, row in enumerate(rows):
        good, rest = i % 2, [(0.9, 0.9), (0.8, 0.8)]
        short, whole = row["combinations"][0], row["combinations"][3]
        short |= {"scores": [(0.9, 0.9)], "left": [] if good else rest}
        short |= {"eligible": good, "has_answer": good}
        whole |= {"scores": [(0.9, 0.9), *([] if good else rest)], "left": []}
        whole |= {"eligible": 1, "has_answer": 1}
        row["combinations"] = [short, whole]
    how = {"max_pairs": 4, "hidden": 16, "epochs": 60, "rate": 5e-3}
    found = {
        rest: fit_eligibility(rows, tmp_path / str(rest), EligibilityPlan(sees_rest=rest, **how))
        for rest in (True, False)
    }
    assert found[True]["held out AUC"] > 0.99 > found[False]["held out AUC"]
    assert found[True]["share_kept"] < found[False]["share_kept"]


def test_rows_are_read_and_bad_ones_told():
    good = toy_rows(1)[0]
    known = {**good, "needs_retrieval": False, "combinations": []}
    unheard = {**good["combinations"][0], "eligible": None}
    rows = [good, known, {"error": {}}, {**good, "combinations": [unheard]}]
    (found,) = eligibility_rows(rows)
    assert [len(one.scores) for one in found] == [1, 2, 3, 4]
    assert sum("random" in one.kinds for one in found) == 1 and found[0].left[0].has_answer == 0.1
    with pytest.raises(InputError, match=r"rows\[0\].combinations` must be"):
        eligibility_rows([{"question": "q"}])
    with pytest.raises(InputError, match="kinds, scores, left"):
        eligibility_rows([{**good, "combinations": [{"eligible": 1}]}])
    with pytest.raises(InputError, match="with combinations"):
        eligibility_rows([known])


@pytest.mark.parametrize(
    ("rows", "plan", "message"),
    [
        (toy_rows(4), {}, "at least 10 questions"),
        (toy_rows(20) + toy_rows(1, fitted_for={"scorer": "other"}), {}, "labelled with one"),
        (toy_rows(20), {"label": "best"}, "label` must be"),
        (toy_rows(20), {"folds": 1}, "folds` must be"),
        (toy_rows(20), {"keep": 2.0}, "keep` must be"),
    ],
)
def test_what_cannot_be_trained_is_told(tmp_path, rows, plan, message):
    with pytest.raises(InputError, match=message):
        fit_eligibility(rows, tmp_path, EligibilityPlan(**plan))
