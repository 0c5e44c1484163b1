"""Expected calibration error by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.evaluation.outcomes import calibration_error


def test_two_bins_by_hand():
    # below a half: mean score 0.3, none right; above: mean 0.8, 1 of 2 right
    scores, labels = [0.2, 0.4, 0.9, 0.7], [0, 0, 1, 0]
    expected = 0.5 * abs(0.3 - 0) + 0.5 * abs(0.8 - 0.5)
    assert calibration_error(scores, labels, bins=2) == pytest.approx(expected)
    assert calibration_error(scores, labels, bins=1) == pytest.approx(abs(0.55 - 0.25))


def test_bins_are_of_equal_width_and_closed_on_the_left():
    # 0.1 and 0.19 share a bin and cancel; 0.2 is in the next and does not
    assert calibration_error([0.5, 0.59], [0, 1]) == pytest.approx(abs(0.5 + 0.59 - 1) / 2)
    assert calibration_error([0.5, 0.6], [0, 1]) == pytest.approx((0.5 + 0.4) / 2)


def test_certainty():
    assert calibration_error([1.0, 0.0], [1, 0]) == 0
    assert calibration_error([1.0, 0.0], [0, 1]) == 1
    assert calibration_error([], []) == 0


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(ValueError):
        calibration_error([0.5], [])


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), max_size=30), st.integers(1, 20))
def test_the_error_is_in_range_whatever_the_order(rows, bins):
    scores, labels = [s for s, _ in rows], [label for _, label in rows]
    found = calibration_error(scores, labels, bins=bins)
    assert -1e-9 <= found <= 1 + 1e-9
    assert found == pytest.approx(calibration_error(scores[::-1], labels[::-1], bins=bins))
