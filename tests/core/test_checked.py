"""Settings checked by their types, once, where a thing is made."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Number,
    Share,
    Size,
    Text,
    can,
    check_callable,
    trait,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError


@dataclass(frozen=True)
class Settings(Checked):
    k: Count | None = 5
    rows: Size = 0
    share: Share = 0.5
    number: Number = 0.0
    name: Text = ""
    mode: Literal["a", "b"] = "a"
    maybe: Literal["a", None] = None
    open: Count | Literal["auto"] | None = "auto"
    call: Annotated[object, check_callable] | None = None
    flag: bool = False
    free: object = None


@pytest.mark.parametrize(
    ("field", "wrong", "allowed"),
    [
        ("k", 0, "an integer of at least 1"),
        ("k", "auto", "an integer of at least 1"),
        ("rows", -1, "an integer of at least 0"),
        ("share", 1.5, "a finite number from 0 to 1"),
        ("share", None, "a finite number from 0 to 1"),
        ("number", float("nan"), "a finite number"),
        ("name", 3, "a string"),
        ("mode", "c", "'a' or 'b'"),
        ("mode", None, "'a' or 'b'"),
        ("maybe", "b", "'a' or None"),
        ("open", "all", "an integer of at least 1"),
        ("open", 0, "an integer of at least 1"),
        ("call", 3, "a callable"),
        ("flag", 1, "a bool"),
    ],
)
def test_a_wrong_field_is_told_by_its_name(field, wrong, allowed):
    with pytest.raises(InputError, match=f"^`{field}` must be {allowed}"):
        Settings(**{field: wrong})


def test_what_is_allowed_stays_and_is_plain():
    numpy = pytest.importorskip("numpy")
    given = {"k": None, "open": None, "call": len, "free": [1], "mode": "b", "flag": True}
    made = Settings(**given, share=numpy.float32(0.25), rows=numpy.int64(3))
    assert {name: getattr(made, name) for name in given} == given
    assert (type(made.share), type(made.rows)) == (float, int)
    assert Settings(open=numpy.int64(2)).open == 2
    assert Settings() == Settings(open="auto")


def test_a_record_names_itself_too():
    @dataclass(frozen=True, slots=True)
    class Held(Record, Checked):
        share: Share

    with pytest.raises(InputError, match=r"^`Held\.share` must be"):
        Held(2)


def test_what_an_object_can_and_says():
    class Model:
        name = "m"
        threshold = "high"

        def score(self):
            """Score nothing."""

    assert can(Model(), "score") and not can(Model, "score") and not can(Model(), "name")
    assert (trait(Model(), "name", str), trait(Model(), "threshold", float)) == ("m", None)
    assert trait(None, "name", str) is None
