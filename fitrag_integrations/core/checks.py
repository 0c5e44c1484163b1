"""Checks of single values: each returns plain Python or raises ``InputError``.

NumPy and torch scalars pass and come out as ``int`` or ``float``: both frameworks refuse anything
else when they store a state or a node. ``Checked`` reads them off the types of a dataclass.
"""

from __future__ import annotations

import difflib
import math
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from fitrag_integrations.core.generic import T
from fitrag_integrations.errors import InputError, refuse_if

Check: TypeAlias = Callable[[str, Any], object]


def check_text(field: str, value: object, *, blank: bool = True) -> str:
    """Require a string; with ``blank=False``, one that is not only white space."""
    if not isinstance(value, str) or not (blank or value.strip()):
        allowed = "a string" if blank else "a string that is not blank"
        raise InputError.of(field, given=value, allowed=allowed)
    return value


def check_number(
    field: str, value: Any, *, low: float = -math.inf, high: float = math.inf
) -> float:
    """Require a finite number in [low, high]."""
    if type(value) is float and low <= value <= high and math.isfinite(value):
        return value  # as nearly all are
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        raise InputError.of(field, given=value, allowed=f"a finite number from {low:g} to {high:g}")
    return number


def check_numbers(
    field: str, values: Iterable[Any], *, low: float = -math.inf, high: float = math.inf
) -> tuple[float, ...]:
    """Require finite numbers in [low, high]; returns them as a tuple."""
    return tuple(
        check_number(f"{field}[{i}]", each, low=low, high=high) for i, each in enumerate(values)
    )


def check_whole(field: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Require an integer of at least ``low`` and, where given, at most ``high``."""
    try:
        number = low - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = low - 1
    if number < low or (high is not None and number > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InputError.of(field, given=value, allowed=f"an integer {limits}")
    return number


def check_label(field: str, value: object, *, allowed: str = "0 or 1") -> int:
    """Require 0, 1 or a boolean; returns 0 or 1. Errors call what is required ``allowed``."""
    refuse_if(value is None or isinstance(value, str) or value not in (0, 1), field, value, allowed)
    return int(value == 1)


def check_is(field: str, value: object, kind: type[T], allowed: str = "") -> T:
    """Require an instance of ``kind``, which errors call ``allowed``, or else by its name."""
    if not isinstance(value, kind):
        raise InputError.of(field, given=value, allowed=allowed or f"a {kind.__name__}")
    return value


def check_one(field: str, value: object, allowed: Iterable[object]) -> object:
    """Require one of the values ``allowed``."""
    if value not in (names := tuple(allowed)):
        raise InputError.of(field, given=value, allowed=" or ".join(map(repr, names)))
    return value


def check_many(field: str, values: object, kind: type[T]) -> tuple[T, ...]:
    """Require an iterable of ``kind``, no string, bytes or mapping; returns it as a tuple."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError.of(field, given=values, allowed=f"a sequence of {kind.__name__}")
    found = tuple(values)
    for i, value in enumerate(found):
        if not isinstance(value, kind):
            check_is(f"{field}[{i}]", value, kind)
    return found


def check_texts(field: str, texts: object) -> tuple[str, ...]:
    """Require an iterable of texts that are not blank."""
    found = check_many(field, texts, str)
    for i, text in enumerate(found):
        check_text(f"{field}[{i}]", text, blank=False)
    return found


def check_callable(field: str, value: object) -> object:
    """Require a callable other than a class, or None."""
    wrong = isinstance(value, type) or not callable(value)
    refuse_if(value is not None and wrong, field, value, "a callable")
    return value


def meant(given: str, names: Iterable[str]) -> str:
    """Return "; did you mean x?" for the most similar name, or an empty string."""
    like = difflib.get_close_matches(given, list(names), n=1)
    return f"; did you mean {like[0]}?" if like else ""


def check_keywords(call: str, given: Iterable[str], names: Iterable[str]) -> None:
    """Reject a keyword that is not one of the `names` that the `call` takes."""
    for name in given:
        if name not in names:
            wrong = f"{call}() got an unexpected keyword argument {name!r}"
            raise TypeError(wrong + meant(name, names))


def can(model: object, verb: str) -> bool:
    """Check whether an object, not a class, has a method."""
    return not isinstance(model, type) and callable(getattr(model, verb, None))


def check_able(field: str, value: Any, verb: str) -> Any:
    """Require an object, not a class, with a method."""
    refuse_if(not can(value, verb), field, value, f"an object with a {verb!r} method")
    return value


def trait(model: object, name: str, kind: type[T]) -> T | None:
    """Return an object's attribute if it has that ``kind``, else None."""
    found = getattr(model, name, None)
    return found if isinstance(found, kind) else None


Text: TypeAlias = Annotated[str, check_text]
Visible: TypeAlias = Annotated[str, partial(check_text, blank=False)]
"""A text that is not blank."""
Texts: TypeAlias = Annotated[Sequence[str], partial(check_many, kind=str)]
Strings: TypeAlias = Annotated[tuple[str, ...], partial(check_many, kind=str)]
Count: TypeAlias = Annotated[int, partial(check_whole, low=1)]
Size: TypeAlias = Annotated[int, partial(check_whole, low=0)]
Number: TypeAlias = Annotated[float, check_number]
Seconds: TypeAlias = Annotated[float, partial(check_number, low=0.001)]
"""A time of at least a millisecond."""
Share: TypeAlias = Annotated[float, partial(check_number, low=0.0, high=1.0)]
"""A number in [0, 1]: a probability, a weight, a threshold on one of these."""


class Checked:
    """Mixin that checks the fields of a dataclass by their types.

    A field of type ``Annotated[T, check]`` becomes what ``check(name, value)`` returns; a field of
    a ``Literal`` must be one of its values, a ``bool`` a boolean. None passes where the type allows
    it, and so do the values of a ``Literal`` in a union.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check every field, so that a wrong argument fails here and not where it is used."""
        for name, check in _checks_of(cast(Any, type(self))).items():
            object.__setattr__(self, name, check(self._named(name), getattr(self, name)))

    @classmethod
    def _named(cls, field: str) -> str:
        """Return the name of a field in an error."""
        return field


@cache
def _checks_of(kind: Any) -> dict[str, Check]:
    hints = get_type_hints(kind, include_extras=True)
    found = {spec.name: _check_of(hints[spec.name]) for spec in fields(kind) if spec.init}
    return {name: check for name, check in found.items() if check is not None}


def _check_of(hint: object) -> Check | None:
    """Return the check that a type implies; None for a type without one."""
    if hint is bool:
        return partial(check_is, kind=bool)
    if get_origin(hint) is Annotated:
        return next(filter(callable, get_args(hint)[1:]), None)
    if get_origin(hint) not in (Union, types.UnionType, Literal):
        return None
    free = tuple(_values(hint))
    checks = [] if get_origin(hint) is Literal else list(filter(None, map(_check_of, _typed(hint))))
    if checks:
        return lambda field, value: (
            value
            if any(value is one or (isinstance(value, str) and value == one) for one in free)
            else checks[0](field, value)
        )
    is_closed = get_origin(hint) is Literal or not list(_typed(hint))
    return partial(check_one, allowed=free) if is_closed else None


def _values(hint: object) -> Iterator[object]:
    """Yield the single values a type has: those of its literals, and None."""
    for part in get_args(hint) if get_origin(hint) is not Literal else (hint,):
        if part is type(None):
            yield None
        elif get_origin(part) is Literal:
            yield from get_args(part)


def _typed(hint: object) -> Iterator[object]:
    """Yield the parts of a union that are no single values."""
    return (p for p in get_args(hint) if p is not type(None) and get_origin(p) is not Literal)
