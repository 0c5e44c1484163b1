"""Have the options of a method, read off its dataclass, as keywords and attributes of a class.

A field that is added to the method is an option here without a line more (`methods.settings`): it
is in the signature, can be set after construction, and what is wrong is rejected either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Traced
from fitrag_integrations.methods.settings import settings_of


def signed(cls: type, made: Callable[..., Any], takes: Iterable[str] = ()) -> None:
    """Return a class the signature its ``**options`` stand for: ``takes``, then those of
    ``made``.
    """
    kind: Any = cls
    _, *own = signature(kind.__init__).parameters.values()  # without self
    named = {each.name for each in own}
    given = [each.parameter for each in settings_of(made) if each.name not in named]
    brought = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in takes]
    last = [each for each in own if each.kind is Parameter.KEYWORD_ONLY]
    first = [each for each in own if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    kind.__signature__ = Signature([*first, *brought, *given, *last])


def made_from(cls: type, made: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Make what the options are of; one that is not known raises ``TypeError``."""
    known = {each.name for each in settings_of(made)}
    for name in options:
        if name not in known:
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}")
    return made(**options)


class Configured:
    """Show what is held in frozen dataclasses as attributes, and take new values for them.

    ``_held`` names the attributes of the instance that are such dataclasses. A public name that
    nothing holds is refused: it would change nothing.
    """

    _held: ClassVar[tuple[str, ...]] = ("_method",)
    _last: Traced[Any] | None = None

    @property
    def last_run(self) -> Traced[Any] | None:
        """The trace of the run of this object that ended last, None where none has."""
        return self._last

    def __getattr__(self, name: str) -> Any:
        holder = None if name.startswith("_") else self._holder(name)
        if holder is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(vars(self)[holder], name)

    def __setattr__(self, name: str, value: Any) -> None:
        holder = None if name.startswith("_") else self._holder(name)
        if holder is not None:
            changed = replace(vars(self)[holder], **{name: value})
            object.__setattr__(self, holder, changed)
        elif (
            name.startswith("_")
            or name in {*vars(self), *dir(type(self))}
            or self._held[-1] not in vars(self)
        ):
            super().__setattr__(name, value)  # the class's, or the framework's while this is made
        else:
            allowed = ", ".join(self._names())
            raise AttributeError(f"{type(self).__name__} has no option {name!r}, but {allowed}")

    def _names(self) -> list[str]:
        held = (vars(self)[at] for at in self._held if at in vars(self))
        return [spec.name for each in held if is_dataclass(each) for spec in fields(each)]

    def _holder(self, name: str) -> str | None:
        for at in self._held:
            each = vars(self).get(at)
            if is_dataclass(each) and any(spec.name == name and spec.init for spec in fields(each)):
                return at
        return None

    def _noted(self, traces: list[Traced[Any]]) -> list[Traced[Any]]:
        self._last = traces[-1] if traces else self._last
        return traces

    def _explained(self) -> str:
        if self._last is None:
            raise InputError.of("query", given=None, allowed="a query: nothing was run so far")
        return self._last.explain()
