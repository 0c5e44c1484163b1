"""Scales, ticks and numbers of the report, worked out by hand."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fitrag_integrations.evaluation.figures.figure import (
    chance,
    clipped,
    cut,
    interval,
    number,
    signed,
    visible,
)
from fitrag_integrations.evaluation.report.charts import MOST, Bar, Label, points, thinned
from fitrag_integrations.evaluation.report.svg import Scale, bounds

MINUS = "\N{MINUS SIGN}"
SHARES = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "\N{EN DASH}"),
        (0.12345, "0.123"),
        (-0.5, f"{MINUS}0.500"),
        (9.9996, "10.0"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (1234, "1,234"),
        (True, "True"),
        ("nan", "nan"),
    ],
)
def test_number(value, told):
    assert number(value) == told


def test_words():
    assert number(0.25, 1) == "0.2"
    assert (signed(0.25), signed(-0.25), signed(None)) == ("+0.250", f"{MINUS}0.250", "\N{EN DASH}")
    assert interval((0.1, 0.2)) == "0.100 to 0.200"
    assert interval(None) == ""
    assert (chance(0.0004), chance(0.02), chance(None)) == ("< 0.001", "0.020", "\N{EN DASH}")
    assert clipped("one two\nthree", 9) == "one two …"
    assert cut("abcdef", 4) == ("abcd", 2)
    assert visible("a\tb\nc") == "a\tb\nc"


@pytest.mark.parametrize(
    ("values", "zero", "expected"),
    [
        ([0.31, 0.74], False, (0.3, 0.8)),
        ([0.31, 0.74], True, (0.0, 0.8)),
        ([-0.17, 0.58], True, (-0.2, 0.6)),
        ([5.0], False, (4.4, 5.6)),
        ([0.0], False, (0.0, 1.0)),
        ([610, 1310], True, (0.0, 1500.0)),
    ],
)
def test_bounds_are_round(values, zero, expected):
    assert bounds(values, zero=zero) == pytest.approx(expected)


def test_bounds_of_counts_are_whole():
    assert bounds([1.0, 3.0], zero=True, whole=True) == (0.0, 3.0)


@given(st.lists(SHARES, min_size=1, max_size=9))
@example([1_000_000.0, 999_999.9999999999])
def test_bounds_hold_every_value_and_ticks_lie_inside(values):
    low, high = bounds(values)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert low - slack <= min(values)
    assert max(values) <= high + slack
    ticks = Scale(low, high, 0.0, 100.0).ticks()
    assert 2 <= len(ticks) <= 13
    assert ticks == sorted(set(ticks))


def test_a_scale_runs_both_ways():
    up = Scale(0.0, 2.0, 100.0, 0.0)
    assert (up(0.0), up(0.5), up(2.0)) == (100.0, 75.0, 0.0)
    assert up.ticks() == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_a_long_line_is_thinned_to_its_ends():
    line = [(float(x), 0.0) for x in range(10_000)]
    shown = thinned(line)
    assert len(shown) == MOST
    assert (shown[0], shown[-1]) == (line[0], line[-1])
    assert thinned(line[:5]) == line[:5]


def test_names_of_points_do_not_lie_on_each_other():
    label = Label("f", "t", "d", "x", "y")
    bars = [Bar(f"method {i}", 0.5, None, 10.0) for i in range(12)]
    drawn = points(label, bars)
    notes = [e for e in drawn.root if e.tag == "text" and e.get("class") == "note"]
    places = [(e.get("x"), e.get("y")) for e in notes]
    assert 0 < len(places) < len(bars)
    assert len(places) == len(set(places))


def test_an_axis_of_shares_ends_at_one():
    drawn = points(Label("f", "t", "d", "x", "y"), [Bar("a", 1.0, (1.0, 1.0), 10.0)])
    assert {e.text for e in drawn.root if e.tag == "text"}.isdisjoint({"1.2", "1.5"})
