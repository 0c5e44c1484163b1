"""Base of the components that are not pydantic models: their attributes are their options."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getattr_static
from typing import Any

from llama_index.core.schema import QueryBundle, QueryType

from fitrag_integrations.core.checks import check_is, check_text
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow, Traced, arun_many, run_many

_OURS = __name__.partition(".")[0]


class Configured:
    """Mixin whose public attributes are options, which are checked whenever they are set.

    A name that is not an option is rejected, because setting it would have no effect. Your own
    subclasses may set any name.
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
        """Return the trace of the last run of this object that ended, or None."""
        return self._last

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Any]]:
        """Return one flow per query of ``bundles``; ``NotImplementedError`` in this base."""
        raise NotImplementedError  # not abstract: the framework puts a span around those

    def trace_many(self, queries: Sequence[QueryType]) -> list[Traced[Any]]:
        """Run all ``queries`` in lock step and return their traces; no error is raised."""
        return self._noted(run_many(self._asked(queries)))

    async def atrace_many(self, queries: Sequence[QueryType]) -> list[Traced[Any]]:
        """Async version of ``trace_many``."""
        return self._noted(await arun_many(self._asked(queries)))

    def _asked(self, queries: Sequence[QueryType], **how: bool) -> list[Flow[Any]]:
        bundles = bundles_of(queries)
        return list(map(_with_text, bundles, self.flows(bundles, **how)))

    def explain(self, query: QueryType | None = None) -> str:
        """Run ``query``, or take the last run, and return what was requested, found and decided."""
        return _told(self._last if query is None else self.trace_many([query])[0])

    async def aexplain(self, query: QueryType | None = None) -> str:
        """Async version of `explain`."""
        return _told(self._last if query is None else (await self.atrace_many([query]))[0])

    def _noted(self, traces: list[Traced[Any]]) -> list[Traced[Any]]:
        self._last = traces[-1] if traces else self._last
        return traces


def _with_text(bundle: QueryBundle, flow: Flow[Any]) -> Flow[Any]:
    check_text("query_str", bundle.query_str, blank=False)  # an error of this query alone
    return (yield from flow)


def _told(traced: Traced[Any] | None) -> str:
    if traced is None:
        raise InputError("nothing was run so far: pass a query")
    return traced.explain()


def bundles_of(queries: Sequence[QueryType]) -> list[QueryBundle]:
    """Convert each query to a bundle; bundles are returned unchanged."""
    refuse_if(isinstance(queries, str | QueryBundle), "queries", queries, "a sequence of queries")
    return [
        query
        if isinstance(query, QueryBundle)
        else QueryBundle(check_is("query", query, str, "a string or a QueryBundle"))
        for query in queries
    ]


def has_own(instance: object, name: str, base: type) -> bool:
    """Check whether a class overrides a method of a base class.

    Args:
        instance: Object of the class.
        name: Name of the method.
        base: Base class.
    """
    # static, because the framework's decorators give another object at each look
    return getattr_static(type(instance), name, None) is not getattr_static(base, name)


def is_sync_only(instance: object, name: str, base: type) -> bool:
    """Check whether a class overrides only the sync version of a method of a base class.

    Args:
        instance: Object of the class.
        name: Name of the sync method.
        base: Base class.
    """
    return has_own(instance, name, base) and not has_own(instance, f"_a{name[1:]}", base)
