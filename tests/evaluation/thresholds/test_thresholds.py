"""Every target by hand, and what is refused."""

import numpy as np
import pytest
from gate_rows import FIVE, REGIMES, ROWS, calibrated, draw, rows_of
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes
from fitrag_integrations.evaluation.thresholds.risk import choose_threshold


def test_the_best_accuracy_of_the_answers():
    # always .8; skip one .8; two 1.0; three .8; four .8; all .6
    found = choose_threshold(ROWS)
    assert found.value == pytest.approx(0.7)
    assert (found.target, found.rows, found.confidence) == ("best accuracy", 5, 0.95)
    assert found.low <= found.value <= found.high


def test_the_best_accuracy_of_the_gate_where_nobody_retrieved():
    rows = [{"score": p, "known": a} for p, a, _ in FIVE]
    # right about: none .4, one .6, two .8, three .6, four .8, all .6; of equals the least retrieval
    assert choose_threshold(rows, resamples=0).value == pytest.approx(0.2)
    assert choose_threshold(rows, resamples=0).low is None


@pytest.mark.parametrize(
    ("share", "value"), [(1, 1.0), (0.9, 0.85), (0.6, 0.7), (0.5, 0.45), (0.2, 0.2), (0, 0.05)]
)
def test_the_share_is_spent_as_far_as_it_goes(share, value):
    found = choose_threshold(ROWS, "share", max_share=share, resamples=0)
    assert found.value == pytest.approx(value)
    assert Outcomes.of(ROWS).share(found.value) <= share


def test_a_share_no_threshold_keeps_to():
    rows = [*ROWS, {"p_known": 0.0, "right_without": 0, "right_with": 1}]
    with pytest.raises(InputError, match="at least 0.166667, the share of rows with p_known 0"):
        choose_threshold(rows, "share", max_share=0.1)


def test_a_promise_is_written_down():
    rows = rows_of(draw(calibrated, np.random.default_rng(1), 800))
    found = choose_threshold(rows, "drop", max_drop=0.02, confidence=0.9, model="m", resamples=10)
    assert (found.target, found.model) == ("drop at most 0.02 with confidence 0.9", "m")
    assert found.value < 1
    assert Outcomes.of(rows).drop(found.value) <= 0.02
    looser = choose_threshold(rows, "drop", max_drop=0.05, resamples=0)
    surer = choose_threshold(rows, "drop", max_drop=0.02, confidence=0.99, resamples=0)
    assert looser.value < found.value < surer.value


def test_a_promise_that_cannot_be_made_says_why():
    few = choose_threshold(ROWS, "drop", max_drop=0.02)
    assert few.value == 1.0
    assert few.target.endswith("not certified, retrieve always: 5 rows are too few, it takes 127")
    bad = [{"p_known": i / 300, "right_without": 0, "right_with": 1} for i in range(300)]
    for target in ("drop", "conformal"):
        found = choose_threshold(bad, target, max_drop=0.004, confidence=0.5, resamples=0)
        assert (found.value, Outcomes.of(bad).share(found.value)) == (1.0, 1.0)
        assert "not certified, retrieve always: on these rows a larger drop" in found.target


def test_the_expected_drop_is_another_promise():
    rows = draw(calibrated, np.random.default_rng(1), 2000)
    found = choose_threshold(rows, "conformal", max_drop=0.05, resamples=0)
    assert found.target == "expected drop at most 0.05"
    lost = np.maximum(rows.drops, 0)[rows.p_known > found.value].sum()
    assert 0.04 < lost / 2000 <= 0.05


def test_all_known_and_none_known():
    p = [0.2, 0.5, 0.7]
    assert choose_threshold([{"p_known": x, "known": 1} for x in p]).value == pytest.approx(0.1)
    assert choose_threshold([{"p_known": x, "known": 0} for x in p]).value == 1.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.999, 1.0]) | st.floats(0, 1),
            st.integers(0, 1),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_the_curve_is_what_its_thresholds_give(rows):
    outcomes = Outcomes.of([{"p_known": p, "known": a, "right_with": b} for p, a, b in rows])
    curve = Curve.of(outcomes)
    assert np.all(np.diff(curve.thresholds) < 0) and np.all(np.diff(curve.share) < 0)
    for threshold, share, accuracy in zip(
        curve.thresholds, curve.share, curve.accuracy, strict=True
    ):
        assert share == pytest.approx(outcomes.share(threshold))
        assert accuracy == pytest.approx(outcomes.accuracy(threshold))
    assert len(curve.share) == len({p for p, _, _ in rows if p}) + 1


@pytest.mark.parametrize("regime", REGIMES, ids=lambda regime: regime.__name__)
def test_the_drop_is_what_is_lost_against_always(regime):
    rows = draw(regime, np.random.default_rng(2), 500)
    for threshold in (0.1, 0.5, 0.8):
        lost = rows.accuracy(1.0) - rows.accuracy(threshold)
        assert rows.drop(threshold) == pytest.approx(lost)


@pytest.mark.parametrize(
    ("rows", "how", "said"),
    [
        ([], {}, "rows"),
        ([3], {}, r"rows\[0\]"),
        ([{"known": 1}], {}, r"rows\[0\].p_known"),
        ([{"p_known": float("nan"), "known": 1}], {}, r"rows\[0\].p_known"),
        ([{"p_known": 1.2, "known": 1}], {}, r"rows\[0\].p_known"),
        ([ROWS[0], {"p_known": 0.2}], {}, r"rows\[1\].known"),
        ([{"p_known": 0.2, "known": "yes"}], {}, r"rows\[0\].known"),
        ([ROWS[0], {"p_known": 0.2, "known": 1}], {}, r"rows\[1\].right_with"),
        (ROWS, {"target": "cheapest"}, "target"),
        (ROWS, {"target": "share"}, "max_share"),
        (ROWS, {"target": "share", "max_share": 40}, "max_share"),
        (ROWS, {"target": "drop", "max_drop": 0}, "max_drop"),
        (ROWS, {"target": "drop", "max_drop": 0.02, "confidence": 1}, "confidence"),
    ],
)
def test_rows_and_targets_that_are_refused(rows, how, said):
    with pytest.raises(InputError, match=said):
        choose_threshold(rows, **how)
