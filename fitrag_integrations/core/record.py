"""Convert values to plain Python that JSON and msgpack can hold, and records back from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast
from uuid import UUID

from fitrag_integrations.core.show import Shown
from fitrag_integrations.errors import InputError

Row: TypeAlias = Mapping[str, Any]
"""Plain values by name: a line of JSON Lines, or an object inside one."""
Keywords: TypeAlias = Mapping[str, Any]
"""Keyword arguments for another library, by name."""


class Record(Shown):
    """Mixin that adds ``to_dict``, ``from_dict`` and a display to a dataclass."""

    __slots__ = ()
    _nested: ClassVar[Mapping[str, type[Record]]] = {}  # fields that hold one record, or several

    @classmethod
    def _named(cls, field: str) -> str:
        """Return the name of a field in the errors of `Checked`."""
        return f"{cls.__name__}.{field}"

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python; what JSON cannot hold becomes its ``repr``."""
        return {name: plain(getattr(self, name)) for name in _names(cast(Any, type(self)))}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Build a record from the output of ``to_dict``; entries that are not fields are ignored.

        Raises:
            InputError: If ``data`` is not a mapping, or a field without a default is missing.
        """
        values: dict[str, object] = {}
        given = check_mapping(cls.__name__, data)
        for spec in fields(cls):  # type: ignore[arg-type]
            if spec.name in given:
                kind, value = cls._nested.get(spec.name), cast(Any, given[spec.name])
                if kind is not None and isinstance(value, list | tuple):
                    value = tuple(map(kind.from_dict, value))
                elif kind is not None and value is not None:
                    value = kind.from_dict(value)
                values[spec.name] = value
            elif spec.default is MISSING and spec.default_factory is MISSING:
                raise InputError.of(f"{cls.__name__}.{spec.name}", given=None, allowed="a value")
        return cls(**values)


R = TypeVar("R", bound=Record)


def remade(record: R, **changes: object) -> R:
    """Copy a record with changed fields, without checking them again."""
    made = object.__new__(type(record))
    for name in _names(cast(Any, type(record))):
        object.__setattr__(made, name, changes[name] if name in changes else getattr(record, name))
    return made


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields(kind))


def check_mapping(field: str, value: object) -> dict[str, object]:
    """Check for a mapping and copy it, so that no two owners share one."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InputError.of(field, given=value, allowed="a mapping")
    return dict(value)


def plain(value: object) -> Any:
    """Return dicts, lists, strings, numbers, booleans and None.

    Dates and times become ISO texts, decimals floats, UUIDs, paths and durations texts. Values with
    ``to_dict`` become its result, NumPy and torch scalars their ``item``. A number that is not
    finite, and anything else, becomes its ``repr``. Raises ``InputError`` for values nested too
    deeply.
    """
    try:
        return _plain(value)
    except RecursionError:
        allowed = "values that are not nested so deeply"
        raise InputError.of("value", given=type(value), allowed=allowed) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | PurePath | timedelta):
        return str(value)
    if isinstance(value, float | Decimal):  # also numpy.float64, which frameworks refuse
        return float(value) if math.isfinite(value) else repr(float(value))
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value)}
    if not isinstance(value, type) and callable(getattr(value, "to_dict", None)):
        return _plain(value.to_dict())
    if getattr(value, "ndim", None) == 0:
        return _plain(value.item())
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, bytes | bytearray):
        return [_plain(item) for item in value]
    return repr(value)
