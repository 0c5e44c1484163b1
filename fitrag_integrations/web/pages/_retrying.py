"""Which answers of a site are failures, and which of those are worth another try."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import retry_after
from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.pages.fetch import Fetched, PassingError
from fitrag_integrations.web.pages.guard import shown

T = TypeVar("T")
MAX_WAIT = 10.0
"""How many seconds of a ``Retry-After`` are waited for; who asks for more is not tried again."""


def check_status(fetched: Fetched) -> Fetched:
    """Pass a 2xx answer through; raise ``SearchError`` for any other."""
    status = fetched.status
    if 200 <= status < 300:
        return fetched
    message = f"{shown(fetched.url)} answered {status}"
    if status == 429 or status >= 500:
        kind = "quota" if status == 429 else "transient"
        raise PassingError(
            message, kind=kind, after=retry_after(fetched.headers.get("retry-after"))
        )
    kinds = {401: "auth", 403: "auth", 407: "auth", 451: "blocked"}
    raise SearchError(message, kind=kinds.get(status, "empty"))


async def persist(call: Callable[[], Awaitable[T]], retries: int) -> T:
    """Await a call, and again after each ``PassingError``, at most ``retries`` times more."""
    tenacity = require_extra("tenacity", extra="web", feature="PageReader")
    backoff = tenacity.wait_exponential(multiplier=0.5, max=4.0) + tenacity.wait_random(0.0, 0.5)

    def pause(state: Any) -> float:
        after = state.outcome.exception().after
        return float(backoff(state) if after is None else after)

    attempts = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(retries + 1),
        retry=tenacity.retry_if_exception(_is_worth_it),
        wait=pause,
        reraise=True,
    )
    async for attempt in attempts:
        with attempt:
            return await call()
    raise AssertionError("tenacity gives a result or raises")


def _is_worth_it(error: BaseException) -> bool:
    return isinstance(error, PassingError) and (error.after is None or error.after <= MAX_WAIT)
