"""Names and serialization of a method's options, for the components of both frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fitrag_integrations.methods import defaults
from fitrag_integrations.ports import model_name
from fitrag_integrations.values.thresholds import ActionThresholds

EMBEDDED = "embedded"
BUNDLED: Mapping[str, object] = {
    "scorer": defaults.EMBEDDED_SCORER,
    "evaluator": defaults.EMBEDDED_EVALUATOR,
    "detector": defaults.EMBEDDED_DETECTOR,
    "reader": defaults.EMBEDDED_READER,
}
"""The bundled model that "embedded" names, by the option that takes it."""


@dataclass(eq=False)
class State:
    """State of a component between its calls: its last run, and the method built from its options.

    Excluded from equality and pickling: all states are equal.
    """

    traced: Any = None
    _built: tuple[Mapping[str, object], Any] = ({}, None)

    def built(self, made: Any, options: Mapping[str, object]) -> Any:
        """Return the object built from options; the previous one if the options are the same
        objects.
        """
        before, method = self._built
        if method is None or any(before.get(name, self) is not options[name] for name in options):
            method = made(**options)
            self._built = options, method
        return method

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State)

    def __reduce__(self) -> tuple[object, ...]:
        return State, ()


def option_names(made: Any) -> list[str]:
    """Return the names of a method's options; empty without a method."""
    return [] if made is None else [option.name for option in fields(made) if option.init]


def saved(option: str, value: object) -> object:
    """Serialize an option's value: a bundled model by name, thresholds as a dict.

    Anything else is returned unchanged.
    """
    if isinstance(value, ActionThresholds):
        return value.to_dict()
    bundled = BUNDLED.get(option)
    if bundled is None or value is None or isinstance(value, bool | int | float | str):
        return value
    known = value is bundled or defaults.is_default(value)
    return EMBEDDED if known or model_name(value) == model_name(bundled) != "" else value


def restored(option: str, value: object) -> object:
    """Return the value that `saved` serialized; any other value is returned unchanged."""
    if option == "thresholds" and isinstance(value, Mapping):
        return ActionThresholds.from_dict(value)
    return BUNDLED.get(option, value) if isinstance(value, str) and value == EMBEDDED else value
