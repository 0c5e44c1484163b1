"""What a search provider and a page reader are, and how a provider is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from fitrag_integrations.errors import InputError, PortError

CALLS = ("ahits", "hits", "asearch", "search")  # the first that is there is used


@runtime_checkable
class SearchProvider(Protocol):
    """Find web pages for each query, best first; n queries in, n answers out.

    An answer is a list of ``SearchHit`` or of anything ``hits_of`` reads, or the exception that
    query failed with. ``ahits`` is the optional async twin, ``name`` the optional name.
    """

    def hits(self, queries: Sequence[str], /) -> Sequence[object]:
        """Give one answer per query, in order."""
        ...


@runtime_checkable
class PageReading(Protocol):
    """Read each page; n in, n out.

    An answer is a ``Page``, or what has its fields, or the exception that page failed with.
    """

    async def aread(self, urls: Sequence[str], /) -> Sequence[object]: ...


def check_provider(provider: object) -> None:
    """Require a ``SearchProvider``, or an object that gives results by ``search(queries)``."""
    if isinstance(provider, type) or _call_name(provider) is None:
        allowed = "an object with a 'hits' method; for a tool use WebSearch.from_tool(tool)"
        raise InputError.of("provider", given=provider, allowed=allowed)


def name_of(provider: object) -> str:
    """Give a provider's name, or that of its class."""
    return str(getattr(provider, "name", "") or type(provider).__name__)


async def ask_provider(provider: object, queries: list[str]) -> list[object]:
    """Ask a provider, in a thread where it has no async side; one answer per query."""
    name = _call_name(provider) or "hits"
    call = getattr(provider, name)
    if name.startswith("a"):
        answers = list(await call(queries))
    else:
        answers = list(await asyncio.to_thread(call, queries))
    if len(answers) != len(queries):
        told = f"{len(queries)} queries but gave {len(answers)} answers"
        raise PortError(f"{name_of(provider)} got {told}")
    return answers


def _call_name(provider: object) -> str | None:
    return next((name for name in CALLS if callable(getattr(provider, name, None))), None)
