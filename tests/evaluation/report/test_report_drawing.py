"""Numbers and words of the report, worked out by hand."""

import pytest

from fitrag_integrations.evaluation.figure import (
    chance,
    clipped,
    cut,
    interval,
    number,
    signed,
    visible,
)

MINUS = "\N{MINUS SIGN}"


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
