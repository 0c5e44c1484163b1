"""What the public classes share: field types, short reprs, and the options of the methods.

A method's options are read off its dataclass (`methods.settings`), so a field that is added there
is a field of its drop-in, with type, default and description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from langchain_core.load.serializable import Serializable
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from fitrag_integrations.core.checks import can
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.langchain.base.models import is_language_model, is_tool
from fitrag_integrations.methods.adapting import Named, check_method
from fitrag_integrations.methods.settings import restored, saved, settings_of

AnyRunnable: TypeAlias = (
    Runnable[Any, Any] | Callable[[Any], Any] | Callable[[Any, RunnableConfig], Any]
)
AnyModel = Annotated[Any, Field(exclude=True)]  # stays out of dumps; pickle keeps it
Count = Annotated[int, Field(ge=1)]


def runnable_of(value: Any) -> Runnable[Any, Any]:
    """Return a Runnable as it is, and a callable as one."""
    if isinstance(value, type) or not (isinstance(value, Runnable) or callable(value)):
        raise InputError.of("runnable", given=value, allowed="a Runnable or a callable")
    found: Runnable[Any, Any] = coerce_to_runnable(value)
    return found


def _finding(value: object) -> object:
    allowed = "a Runnable that finds documents; what a language model writes is no source"
    refuse_if(is_language_model(value), "runnable", value, allowed)
    return runnable_of(value)


def _searching(value: object) -> object:
    return value if is_tool(value) or can(value, "search") else _finding(value)


READ_BY = {
    "base": _finding,
    "retriever": _finding,
    "search": _searching,
    "method": check_method,
    **dict.fromkeys(
        ("llm", "condense", "known", "unknown", "correct", "incorrect", "ambiguous"), runnable_of
    ),
}
"""What checks, and makes a Runnable of, the value of a field."""


class Brief(Serializable):
    """Component of LangChain that shows, and serializes, what was set."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", defer_build=True)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether `dumpd` writes it: always."""
        return True

    def to_json(self) -> Any:
        """Return the class and its arguments, as LangChain's `dumpd` calls for.

        A bundled model is written as "embedded". Of what cannot be written, such as a function or a
        model of your own, `dumpd` writes the name, with which `load` refuses it.
        """
        given = {name: saved(name, value) for name, value in self._given()}
        return {"lc": 1, "type": "constructor", "id": self.lc_id(), "kwargs": given}

    @field_validator("*", mode="before")
    @classmethod
    def _read(cls, value: object, info: ValidationInfo) -> object:
        name = str(info.field_name)
        value = restored(name, value)
        if name not in READ_BY or (value is None and not cls.model_fields[name].is_required()):
            return value
        return READ_BY[name](value)

    def _given(self) -> Iterator[tuple[str, Any]]:
        for name, spec in type(self).model_fields.items():
            value = vars(self).get(name, spec.default)  # absent while it is being made
            if value != spec.default:
                yield name, value

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        for name, value in self._given():
            if isinstance(value, bool | int | float | str | None):
                yield name, value
            else:
                yield name, list(map(Named, value)) if isinstance(value, list) else Named(value)


class Settings(Brief):
    """Options of ``made`` as fields; they are read at each call."""

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
