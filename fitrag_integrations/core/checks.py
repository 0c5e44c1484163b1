"""Checks of single values: each returns plain Python or raises ``InputError``.

NumPy and torch scalars pass and come out as ``int`` or ``float``: both frameworks refuse anything
else when they store a state or a node.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fitrag_integrations.errors import InputError

T = TypeVar("T")


def check_text(field: str, value: Any, *, blank: bool = True) -> str:
    """Require a string; with ``blank=False``, one with a visible character."""
    if not isinstance(value, str) or not (blank or value.strip()):
        allowed = "a string" if blank else "a string that is not blank"
        raise InputError.of(field, given=value, allowed=allowed)
    return value


def check_number(
    field: str, value: Any, *, low: float = -math.inf, high: float = math.inf
) -> float:
    """Require a finite number in [low, high]."""
    if type(value) is float and low <= value <= high and math.isfinite(value):
        return value  # as nearly all are: what is allowed is written where it is not kept to
    allowed = f"a finite number from {low:g} to {high:g}"
    if isinstance(value, bool | str | bytes):
        raise InputError.of(field, given=value, allowed=allowed)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError.of(field, given=value, allowed=allowed) from None
    if not (math.isfinite(number) and low <= number <= high):
        raise InputError.of(field, given=value, allowed=allowed)
    return number


def check_whole(field: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Require an integer of at least ``low`` and, where given, at most ``high``."""
    allowed = f"an integer from {low}" + (" up" if high is None else f" to {high}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError.of(field, given=value, allowed=allowed) from None
    if isinstance(value, bool) or number < low or (high is not None and number > high):
        raise InputError.of(field, given=value, allowed=allowed)
    return number


def check_is(field: str, value: Any, kind: type[T]) -> T:
    """Require an instance of ``kind``."""
    if not isinstance(value, kind):
        raise InputError.of(field, given=value, allowed=f"a {kind.__name__}")
    return value


def check_many(field: str, values: Any, kind: type[T]) -> tuple[T, ...]:
    """Require an iterable of ``kind`` that is not itself a string."""
    allowed = f"a sequence of {kind.__name__}"
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError.of(field, given=values, allowed=allowed)
    return tuple(check_is(f"{field}[{i}]", value, kind) for i, value in enumerate(values))


def check_callable(field: str, value: Any) -> None:
    """Require something to call, or None."""
    if value is not None and (isinstance(value, type) or not callable(value)):
        raise InputError.of(field, given=value, allowed="a callable")


def meant(given: str, names: Iterable[str]) -> str:
    """Ask after the name that is most like what was given: `; did you mean x?`, or nothing."""
    like = difflib.get_close_matches(given, list(names), n=1)
    return f"; did you mean {like[0]}?" if like else ""
