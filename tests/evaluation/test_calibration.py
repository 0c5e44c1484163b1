"""Expected calibration error by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.evaluation.outcomes import calibration_error


@pytest.mark.parametrize(
    ("scores", "labels", "bins", "expected"),
    [
        # below a half: mean score 0.3, none right; above: mean 0.8, 1 of 2 right
        ([0.2, 0.4, 0.9, 0.7], [0, 0, 1, 0], 2, 0.5 * abs(0.3 - 0) + 0.5 * abs(0.8 - 0.5)),
        ([0.2, 0.4, 0.9, 0.7], [0, 0, 1, 0], 1, abs(0.55 - 0.25)),
        # bins are of equal width and closed on the left: the first two share one and cancel
        ([0.5, 0.59], [0, 1], 10, abs(0.5 + 0.59 - 1) / 2),
        ([0.5, 0.6], [0, 1], 10, (0.5 + 0.4) / 2),
        ([1.0, 0.0], [1, 0], 10, 0),
        ([1.0, 0.0], [0, 1], 10, 1),
        ([], [], 10, 0),
    ],
)
def test_the_error_by_hand(scores, labels, bins, expected):
    assert calibration_error(scores, labels, bins=bins) == pytest.approx(expected)
    with pytest.raises(ValueError):  # lists of unequal length
        calibration_error([*scores, 0.5], labels)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), max_size=30), st.integers(1, 20))
def test_the_error_is_in_range_whatever_the_order(rows, bins):
    scores, labels = [s for s, _ in rows], [label for _, label in rows]
    found = calibration_error(scores, labels, bins=bins)
    assert -1e-9 <= found <= 1 + 1e-9
    assert found == pytest.approx(calibration_error(scores[::-1], labels[::-1], bins=bins))
