"""Names and serialization of a method's options, for the components of both frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, cast

from fitrag_integrations.core.generic import T
from fitrag_integrations.core.show import Named
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
    """State of a component between its calls: its last run, and what was made of its fields.

    Excluded from equality and pickling: all states are equal.
    """

    traced: Any = None
    made: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State)

    def __reduce__(self) -> tuple[object, ...]:
        return State, ()


class Built:
    """Mixin of components of pydantic whose fields are the options of a method or a step.

    What is made of the fields is made once, and anew after a field was set.
    """

    made: ClassVar[Any] = None
    """The dataclass of the method or step, or None."""
    _state: State

    def settings(self, **given: object) -> dict[str, Any]:
        """Return the current options of `made`, replaced by those in ``given``."""
        return {**{name: getattr(self, name) for name in option_names(self.made)}, **given}

    def built(self) -> Any:
        """Return the method or the step with the current options."""
        return self._once("method", lambda: self.made(**self.settings()))

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Return what was made of the current fields under this name, or make it."""
        made = self._state.made  # another after a field was set
        if name not in made:
            made[name] = make()
        return cast(T, made[name])

    def _given(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields that do not have their default."""
        for name, spec in cast(Any, type(self)).model_fields.items():
            value = vars(self).get(name, spec.default)  # absent while it is being made
            if spec.default_factory is None and value != spec.default:
                yield name, value

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        for name, value in self._given():
            if isinstance(value, bool | int | float | str | None):
                yield name, value
            else:
                yield name, list(map(Named, value)) if isinstance(value, list) else Named(value)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self._state.made = {}

    def __copy__(self) -> Self:
        copied = cast(Any, super()).__copy__()
        copied._state = State()  # the copy may get other fields
        return cast(Self, copied)


def option_names(made: Any) -> list[str]:
    """Return the names of a method's options; empty without a method."""
    return [] if made is None else [option.name for option in fields(made) if option.init]


def saved(option: str, value: object) -> object:
    """Serialize an option's value.

    Args:
        option: Name of the option.
        value: A bundled model becomes its name, thresholds become a dict; others are returned
            unchanged.
    """
    if isinstance(value, ActionThresholds):
        return value.to_dict()
    if option == "shots":
        return [one.to_dict() for one in cast(Any, value)]
    bundled = BUNDLED.get(option)
    if bundled is None or value is None or isinstance(value, bool | int | float | str):
        return value
    known = value is bundled or defaults.is_default(value)
    return EMBEDDED if known or model_name(value) == model_name(bundled) != "" else value


def restored(option: str, value: object) -> object:
    """Return the value that `saved` serialized.

    Args:
        option: Name of the option.
        value: Serialized value; any other is returned unchanged.
    """
    if option == "thresholds" and isinstance(value, Mapping):
        return ActionThresholds.from_dict(value)
    return BUNDLED.get(option, value) if isinstance(value, str) and value == EMBEDDED else value


def settled(outcomes: list[Any], return_exceptions: bool = False) -> list[Any]:
    """Return the outcomes, or raise the first exception among them.

    Args:
        outcomes: Results and exceptions.
        return_exceptions: Whether exceptions are returned in their places instead.
    """
    for outcome in outcomes:
        is_error = isinstance(outcome, Exception)
        if isinstance(outcome, BaseException) and not (is_error and return_exceptions):
            raise outcome
    return outcomes
