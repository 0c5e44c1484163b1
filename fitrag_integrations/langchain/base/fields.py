"""What the public classes share: field types, short reprs, and the options of the methods.

A method's options are read off its dataclass (`methods.settings`), so a field that is added there
is a field of its drop-in, with type, default and description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import coerce_to_runnable
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from fitrag_integrations.errors import InputError
from fitrag_integrations.langchain.base.models import is_language_model, is_tool
from fitrag_integrations.methods.adapting import Named, check_method
from fitrag_integrations.methods.settings import settings_of


class Brief(BaseModel):
    """Show only what was set: numbers and texts as they are, objects by their names."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        for name, spec in type(self).model_fields.items():
            value = vars(self).get(name)  # absent while it is being made
            if value == spec.default or value is None:
                continue
            if isinstance(value, bool | int | float | str):
                yield name, value
            else:
                yield name, list(map(Named, value)) if isinstance(value, list) else Named(value)


def _runnable(value: object) -> object:
    if isinstance(value, Runnable):
        return value
    if isinstance(value, type) or not callable(value):
        raise InputError.of("runnable", given=value, allowed="a Runnable or a callable")
    return coerce_to_runnable(value)


def _finding(value: object) -> object:
    if is_language_model(value):
        allowed = "a Runnable that finds documents; what a language model writes is no source"
        raise InputError.of("runnable", given=value, allowed=allowed)
    return _runnable(value)


def _searching(value: object) -> object:
    is_provider = not isinstance(value, type) and callable(getattr(value, "search", None))
    return value if value is None or is_tool(value) or is_provider else _finding(value)


# the objects behind these fields stay out of dumps; pickle keeps them
if TYPE_CHECKING:  # a checker has to know that functions may be given
    AnyRunnable: TypeAlias = Runnable[Any, Any] | Callable[..., Any]
    AnyBase: TypeAlias = Runnable[Any, Any] | Callable[..., Any]
else:
    AnyRunnable = Annotated[Runnable[Any, Any], BeforeValidator(_runnable)]
    AnyBase = Annotated[Runnable[Any, Any], BeforeValidator(_finding)]
AnySearch = Annotated[Any, AfterValidator(_searching), Field(exclude=True)]
AnyMethod = Annotated[Any, AfterValidator(check_method), Field(exclude=True)]
AnyModel = Annotated[Any, Field(exclude=True)]
Count = Annotated[int, Field(ge=1)]


class Settings(Brief):
    """Options of ``made`` as fields; they are read at each call."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    made: ClassVar[Any]

    def settings(self, **given: object) -> dict[str, Any]:
        """Return the options as they are now, with those of ``given`` in their place."""
        held = dict(self)
        return {**{each.name: held[each.name] for each in settings_of(self.made)}, **given}

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        """Check the arguments at construction, not at the first question."""
        self.made(**self.settings())
        return self
