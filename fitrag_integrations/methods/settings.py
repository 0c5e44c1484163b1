"""Read what a method can be set to off its dataclass, so that no adapter spells it again.

A drop-in takes its options from here: a field that is added to a method is an option of both
frameworks' drop-ins from then on, with its type, its default and its line under `Args:`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from inspect import Parameter, cleandoc
from types import GenericAlias
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import defaults
from fitrag_integrations.ports import model_name
from fitrag_integrations.values.thresholds import ActionThresholds

EMBEDDED = "embedded"
BUNDLED: Mapping[str, object] = {
    "scorer": defaults.EMBEDDED_SCORER,
    "evaluator": defaults.EMBEDDED_EVALUATOR,
    "gate": defaults.EMBEDDED_GATE,
    "detector": defaults.EMBEDDED_DETECTOR,
    "reader": defaults.EMBEDDED_READER,
    "proxy": defaults.EMBEDDED_GENERATOR,
    "drafter": defaults.EMBEDDED_MODEL,
}
"""The bundled model that "embedded" names, by the option that takes it."""

_ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_SCALARS = (bool, int, float, str, type(None))
_MANY = (Iterable, Sequence, tuple, list)


@dataclass(frozen=True)
class Setting:
    """One option: its name, type, default, and description.

    `kind` is None where only the method itself can say what is allowed: models, callables.
    """

    name: str
    hint: object
    kind: object
    default: object
    help: str

    @property
    def parameter(self) -> Parameter:
        """The option as a keyword of a signature."""
        return Parameter(
            self.name, Parameter.KEYWORD_ONLY, default=self.default, annotation=self.hint
        )


@cache
def settings_of(made: Callable[..., object]) -> tuple[Setting, ...]:
    """Read the options of a dataclass, in the order of its signature."""
    if not (isinstance(made, type) and is_dataclass(made)):
        raise InputError.of("method", given=made, allowed="a dataclass, such as FitRag")
    hints, meaning = get_type_hints(made), dict[str, str]()
    for kind in reversed(made.__mro__):
        _, _, listed = cleandoc(kind.__doc__ or "").partition("\nArgs:\n")
        found = _ARGUMENT.findall(listed.partition("\n\n")[0])
        meaning |= {name: " ".join(text.split()) for name, text in found}
    return tuple(
        Setting(
            spec.name,
            hints[spec.name],
            _plain(hints[spec.name]),
            Parameter.empty if spec.default is MISSING else spec.default,
            meaning.get(spec.name, f"As in {made.__name__}."),
        )
        for spec in sorted(fields(made), key=lambda spec: bool(spec.kw_only))
        if spec.init
    )


def _plain(hint: object) -> Any:
    """Return a type that holds nothing but scalars, or lists of them; None for any other."""
    if hint in _SCALARS or (isinstance(hint, type) and issubclass(hint, Enum)):
        return hint
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return hint
    if origin in (Union, types.UnionType):
        parts = [_plain(part) for part in inner]
        return None if None in parts else Union[tuple(parts)]  # noqa: UP007 - made at run time
    if origin in _MANY:
        part = Any if inner[0] is Any else _plain(inner[0])
        return None if part is None else GenericAlias(Sequence, (part,))
    return None


def saved(option: str, value: object) -> object:
    """Return an option's value as it is serialized: a bundled model by name, thresholds as a dict.

    Anything else is returned unchanged.
    """
    if isinstance(value, ActionThresholds):
        return value.to_dict()
    bundled = BUNDLED.get(option)
    if bundled is None or value is None or isinstance(value, _SCALARS[:-1]):
        return value
    known = value is bundled or defaults.is_default(value)
    return EMBEDDED if known or model_name(value) == model_name(bundled) != "" else value


def restored(option: str, value: object) -> object:
    """Return the value that `saved` serialized, or a value that was given unchanged."""
    if option == "thresholds" and isinstance(value, Mapping):
        return ActionThresholds.from_dict(value)
    return BUNDLED.get(option, value) if isinstance(value, str) and value == EMBEDDED else value
