"""JSON over HTTP to one server: bounded in time and size, retried, and without a trace of the key.

Streaming is not supported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from fitrag_integrations.core.checks import check_number, check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import Limits, Meter, parse_reply, read_body, retry_after
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import PortError, SearchError, raise_if, refuse_if

if TYPE_CHECKING:
    import httpx

    # the client of one event loop, its limit, and what closes it when the loop ends
    _Connection: TypeAlias = tuple[httpx.AsyncClient, asyncio.Semaphore, AsyncIterator[None]]

TEMPORARY = {408, 429, 500, 502, 503, 504}  # status codes that are worth a retry
SHOWN = 200  # characters of an error response that are repeated in the error
ERROR_BYTES = 16_384  # of an error response that are read
FAILURES = 8
"""Attempts in a row that fail (5xx, no connection) before the server is down: then no retries."""


class RequestError(PortError):
    """Request that failed.

    Args:
        message: What happened.
        status: Status of the response; None if there was none.
        wait: Seconds before a retry, -1 for the usual backoff; None if a retry is of no use.
    """

    def __init__(self, message: str, status: int | None = None, wait: float | None = None) -> None:
        super().__init__(message)
        self.status, self.wait = status, wait

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the status, which plain exceptions would drop."""
        return RequestError, (str(self), self.status)


class OpenAIClient:
    """Client that posts JSON to one server, from any thread and any event loop.

    Each event loop has its own connections, which are closed with it. A temporary failure (408,
    429, 5xx, a broken connection) is retried after its Retry-After, or with exponential backoff;
    once `FAILURES` attempts in a row failed, without retries until one succeeds. A response is read
    within `core.http.Limits`. The key appears in no message, `repr` or pickle.

    Args:
        base_url: Address of the server, without user name or password.
        api_key: String, object with `get_secret_value`, or None.
        timeout: Seconds for one attempt, including a response that arrives slowly.
        max_retries: Maximum number of retries of a request.
        concurrency: Maximum number of concurrent requests in one event loop.
        deadline: Seconds for a request with all its retries and waits. None is no limit.
        replies: Type that the JSON value of a response must have.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: object,
        timeout: float,
        max_retries: int,
        concurrency: int,
        deadline: float | None = None,
        replies: type | tuple[type, ...] = dict,
    ) -> None:
        for module in ("httpx", "tenacity"):
            require_extra(module, extra="remote", feature="a remote model")
        self.base_url = check_text("base_url", base_url, blank=False).rstrip("/")
        parts = urlsplit(self.base_url)
        refuse_if(  # it is a secret, and not repeated
            parts.username or parts.password,
            "`base_url` must have no user or password: pass the key as api_key",
        )
        refuse_if(  # a key may stand there, and no path can follow
            parts.query or parts.fragment, "`base_url` must have no query: pass a key as api_key"
        )
        refuse_if(
            parts.scheme not in ("http", "https") or not parts.hostname,
            "base_url",
            base_url,
            "an address such as 'http://localhost:8000/v1'",
        )
        self._secret = Secret(api_key)
        self._timeout = check_number("timeout", timeout, low=0.001)
        self._tries = 1 + check_whole("max_retries", max_retries, low=0)
        self._concurrency = check_whole("concurrency", concurrency, low=1)
        self._deadline = None if deadline is None else check_number("deadline", deadline, low=0.001)
        self._replies = replies
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._lock = Lock()
        self._failed = 0

    async def post(self, path: str, body: Mapping[str, object]) -> object:
        """Post one body and return the JSON of the response.

        Args:
            path: Path below the base address.
            body: Body of the request.

        Raises:
            RequestError: If the request fails, with the status of the response if there was one.
        """
        import tenacity

        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=20.0)

        def pause(state: Any) -> float:
            wait: float = state.outcome.exception().wait
            return wait if wait >= 0.0 else float(backoff(state))

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, RequestError) and error.wait is not None
            ),
            stop=lambda state: state.attempt_number >= self._tries or self._failed >= FAILURES,
            wait=pause,
            reraise=True,
        )
        client, limit, _ = await self._connection()
        try:
            async with limit, asyncio.timeout(self._deadline):
                return await retrying(self._attempt, client, path, body)
        except TimeoutError:
            refused = self._error(f"no response within the deadline of {self._deadline:g} s")
        except RequestError as error:
            refused = RequestError(str(error), error.status)
        raise refused  # here, so that no request with its headers is its context

    async def _attempt(
        self, client: httpx.AsyncClient, path: str, body: Mapping[str, object]
    ) -> object:
        import httpx

        url, headers = f"{self.base_url}{path}", {"Accept-Encoding": "gzip"}
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream("POST", url, json=body, headers=headers) as reply,
            ):
                return await self._read(reply)
        except TimeoutError:
            error = self._error(f"no complete response within {self._timeout:g} s", wait=-1.0)
        except httpx.RequestError as failed:  # it holds the request, and so the key
            wait = -1.0 if isinstance(failed, httpx.TransportError) else None
            error = self._error(f"{type(failed).__name__}: {failed}", wait=wait)
        self._failed += 1
        raise error

    async def _read(self, reply: httpx.Response) -> object:
        """Read a response within the limits, and return its JSON."""
        status, encoding = reply.status_code, reply.headers.get("content-encoding", "")
        self._failed = self._failed + 1 if status >= 500 else 0
        try:
            meter = Meter(encoding, Limits(), None if status == 200 else ERROR_BYTES)
            content = await read_body(reply.aiter_raw(), meter)
        except SearchError as error:
            raise self._error(f"the response is not read: {error}") from None
        if status == 200:
            found = parse_reply(content)
            if isinstance(found, self._replies):
                return (
                    found
                    if self._secret.weak
                    else json.loads(self._secret.redact(json.dumps(found)))
                )
            raise self._error("the response is not the expected JSON")
        asked = retry_after(reply.headers.get("retry-after"))
        wait = -1.0 if asked is None else asked
        final = status not in TEMPORARY or wait > self._timeout
        message = f"status {status}: {content.decode('utf-8', 'replace')}"
        raise self._error(message, status=status, wait=None if final else wait)

    def _error(
        self, message: str, *, status: int | None = None, wait: float | None = None
    ) -> RequestError:
        """Build an error; redact before shortening, because a part of a key is not recognized."""
        at, text = map(self._secret.redact, (self.base_url, message))
        return RequestError(f"{at}: {' '.join(text.split())[:SHOWN]}", status, wait)

    async def _connection(self) -> _Connection:
        """Return the connections of the running loop, and drop those of closed loops."""
        import httpx

        loop = asyncio.get_running_loop()
        with self._lock:
            for dead in [each for each in self._connections if each.is_closed()]:
                del self._connections[dead]
            known = self._connections.get(loop)
            if known is not None:
                return known
            key = self._secret.reveal()
            client = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=self._concurrency),
            )
            made = client, asyncio.Semaphore(self._concurrency), _kept(client)
            self._connections[loop] = made
        await anext(made[2])
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without connections; a client with a key cannot be pickled."""
        raise_if(
            self._secret.reveal(),
            TypeError,
            f"the client of {self.base_url} holds a key: create it anew instead",
        )
        return partial(
            OpenAIClient,
            self.base_url,
            api_key=None,
            timeout=self._timeout,
            max_retries=self._tries - 1,
            concurrency=self._concurrency,
            deadline=self._deadline,
            replies=self._replies,
        ), ()

    def __repr__(self) -> str:
        return f"OpenAIClient({self.base_url!r})"


async def _kept(client: httpx.AsyncClient) -> AsyncIterator[None]:
    """Close the client when the loop ends: an ending loop closes its async generators."""
    async with client:
        yield
