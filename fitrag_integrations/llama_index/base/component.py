"""What the components that are no models of pydantic share: their options are their attributes."""

from __future__ import annotations

from inspect import getattr_static
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Traced

_OURS = __name__.partition(".")[0]


class Configured:
    """Mixin whose public attributes are options: one that is set later is checked, and counts.

    A name that is no option is refused, because setting it would change nothing; a subclass of your
    own may set what it likes.
    """

    _ready = False
    _last: Traced[Any] | None = None

    def __post_init__(self) -> None:
        self._prepare()
        self._ready = True

    def _prepare(self) -> None:
        """Build what the options describe; raise `InputError` for a wrong one."""

    def __setattr__(self, name: str, value: Any) -> None:
        options, kind = vars(self), type(self)
        is_option = self._ready and not name.startswith("_") and name in options
        is_own = (
            name.startswith("_") or hasattr(kind, name) or not kind.__module__.startswith(_OURS)
        )
        if self._ready and not (is_option or is_own):
            allowed = ", ".join(each for each in options if not each.startswith("_"))
            raise AttributeError(f"{kind.__name__} has no option {name!r}, but {allowed}")
        before = options.get(name)
        super().__setattr__(name, value)
        if is_option:
            try:
                self._prepare()
            except Exception:
                super().__setattr__(name, before)
                raise

    @property
    def last_run(self) -> Traced[Any] | None:
        """The trace of the run of this object that ended last, None where none has."""
        return self._last

    def _noted(self, traces: list[Traced[Any]]) -> list[Traced[Any]]:
        self._last = traces[-1] if traces else self._last
        return traces

    def _explained(self) -> str:
        if self._last is None:
            raise InputError.of("query", given=None, allowed="a query: nothing was run so far")
        return self._last.explain()


def has_own(instance: object, name: str, base: type) -> bool:
    """Check whether a class gives its own version of a method of ``base``."""
    # static, because the framework's decorators give another object at each look
    return getattr_static(type(instance), name, None) is not getattr_static(base, name)


def is_sync_only(instance: object, name: str, base: type) -> bool:
    """Check whether a class overrides the sync side of a method of ``base``, and not the async."""
    return has_own(instance, name, base) and not has_own(instance, f"_a{name[1:]}", base)
