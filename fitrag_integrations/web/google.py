"""Search with Google's Custom Search JSON API, until it ends.

The key is sent in the ``X-Goog-Api-Key`` header, which every Google API accepts. The client would
put it into the URL, where it would appear in logs and error messages.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from http.client import HTTPException, HTTPResponse
from typing import Annotated, Any
from urllib.parse import urlsplit

from fitrag_integrations.core.checks import (
    check_text,
    check_whole,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import DEPTH, STEP, VALUES, Limits, Meter, spread
from fitrag_integrations.core.jsonl import check_size
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import SearchError, raise_if, refuse_if
from fitrag_integrations.values.passage import first_text
from fitrag_integrations.web.search import SearchHit, SearchService

ENDS = date(2027, 1, 1)
INSTEAD = "Use SearxngSearch, or a search tool through WebSearch.from_tool."
SHOWN = ("title", "link", "snippet")
_QUOTA = (
    "limitexceeded",
    "limit_exceeded",
    "quotaexceeded",
    "quota exceeded",
    "resource_exhausted",
)


@dataclass(frozen=True)
class GoogleSearch(SearchService):
    """Search provider for a Google Programmable Search Engine.

    Google has closed the service to new customers and ends it for everybody on 2027-01-01; the
    constructor warns about it with a ``FutureWarning``.

    Args:
        api_key: API key. Defaults to ``GOOGLE_API_KEY``. It appears in no repr, pickle, log, trace
            or error.
        engine_id: ID of the search engine. Defaults to ``GOOGLE_CSE_ID``.
        max_results: Results per query, 1 to 10; any number costs one query of the quota.
        timeout: Seconds allowed for a whole response.
        tries: Maximum number of attempts for a temporary failure.
        wait: Seconds before the first retry; doubles with each attempt.
        at_once: Maximum number of concurrent calls.
        endpoint: Another server that implements the API; it receives the key.

    Raises:
        InputError: If there is no key or no engine ID, or a number is out of range.

    Example:
        >>> search = WebSearch(GoogleSearch(engine_id="..."), pages=PageReader())
    """

    api_key: Any = field(default=None, compare=False)
    engine_id: str | None = None
    _: KW_ONLY
    max_results: Annotated[int, partial(check_whole, low=1, high=10)] = 10
    endpoint: str | None = None
    name = "google"

    def __post_init__(self) -> None:
        secret = Secret(self.api_key, "GOOGLE_API_KEY")
        refuse_if(not secret.found, "api_key: none given, allowed a key, here or in GOOGLE_API_KEY")
        object.__setattr__(self, "api_key", secret)
        engine = self.engine_id or os.environ.get("GOOGLE_CSE_ID", "")
        object.__setattr__(self, "engine_id", check_text("engine_id", engine, blank=False))
        super().__post_init__()
        warnings.warn(notice(), FutureWarning, stacklevel=3)

    async def ahits(self, queries: Sequence[str], /) -> list[list[SearchHit] | Exception]:
        """Search for each query, concurrently in threads: Google's client is synchronous.

        Returns:
            For each query a list of ``SearchHit``, empty if nothing was found, or a
            ``SearchError``: "auth" (key, project or engine refused), "quota" or "transient".
        """
        require_extra("googleapiclient", extra="google", feature="GoogleSearch")
        return await spread(self._answer, queries, self.at_once, threads=True)

    def _answer(self, query: str) -> list[SearchHit]:
        from tenacity import Retrying

        options = self._retrying(extra="google")
        try:
            return Retrying(**options)(self._found, query)
        except SearchError as error:  # a new one, without the client's own errors as its cause
            refused = SearchError(self.api_key.redact(str(error))[:600], kind=error.kind)
        raise refused

    def _found(self, query: str) -> list[SearchHit]:
        from googleapiclient.discovery import build
        from googleapiclient.errors import HttpError
        from httplib2 import HttpLib2Error

        raise_if(
            not self.api_key.found,
            SearchError,
            f"no key: set {self.api_key.variable}",
            kind="auth",
        )
        try:
            options = None if self.endpoint is None else {"api_endpoint": self.endpoint}
            with contextlib.closing(_client(self.timeout)) as http:  # not thread-safe
                service = build(
                    "customsearch",
                    "v1",
                    http=http,
                    static_discovery=True,
                    cache_discovery=False,
                    client_options=options,
                )
                request = service.cse().list(q=query, cx=self.engine_id, num=self.max_results)
                request.headers["x-goog-api-key"] = self.api_key.reveal()
                reply = request.execute()
            items = reply.get("items", []) if isinstance(reply, dict) else None
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise ValueError("does not match the schema")
            texts = [[first_text(item, (key,)) for key in SHOWN] for item in items]
            return [SearchHit(*map(self.api_key.redact, each)) for each in texts]
        except HttpError as error:
            raise _refusal(error) from None
        except (OSError, HttpLib2Error, HTTPException) as error:
            raise SearchError(
                f"Google did not answer: {type(error).__name__}: {error}", kind="transient"
            ) from None
        except ValueError:
            raise SearchError(
                "Google did not answer in JSON of its schema", kind="transient"
            ) from None


def _client(seconds: float) -> Any:
    """Build a client that bounds the size and time of responses, which httplib2 does not."""
    import httplib2

    class Client(httplib2.Http):  # type: ignore[misc]
        def request(self, uri: str, *given: Any, **named: Any) -> Any:
            kind = httplib2.SCHEME_TO_CONNECTION[urlsplit(uri).scheme]

            class Bounded(kind):  # type: ignore[misc,valid-type]
                def getresponse(self) -> Any:
                    reply = super().getresponse()
                    reply.read = partial(_bounded, reply, time.monotonic() + seconds)
                    return reply

            return super().request(uri, *given, **{**named, "connection_type": Bounded})

    client = Client(timeout=seconds)
    client.follow_redirects = False  # a redirect would receive the key
    return client


def _bounded(reply: HTTPResponse, until: float) -> bytes:
    """Read a response here, since httplib2 bounds neither its size nor its time."""
    with contextlib.closing(reply):
        meter = Meter(reply.headers.get("content-encoding", ""), Limits())
        del reply.headers["content-encoding"]
        while chunk := reply.read1(STEP):
            raise_if(
                time.monotonic() > until,
                SearchError,
                "Google did not answer: no whole answer in time",
                kind="transient",
            )
            meter.take(chunk)
    content = meter.end()
    check_size(content, values=VALUES, depth=DEPTH)
    return content


def notice(today: date | None = None) -> str:
    """Return the warning about the end of the service, as of a day (default: today)."""
    if (today or datetime.now(UTC).date()) >= ENDS:
        return f"Google ended its Custom Search JSON API on {ENDS}. {INSTEAD}"
    closed = "Google's Custom Search JSON API is closed to new customers and ends for all on"
    return f"{closed} {ENDS}. {INSTEAD}"


def _refusal(error: Any) -> SearchError:
    status, body = int(error.resp.status), error.content.decode("utf-8", "replace").lower()
    reason = (error.reason or "no reason given").rstrip(".")
    message = f"Google answered {status}: {reason}."
    if "does not have the access to custom search json api" in body:
        return SearchError(f"{message} This project came too late. {notice()}", kind="auth")
    if datetime.now(UTC).date() >= ENDS:
        message = f"{message} {notice()}"
    if status == 429 or any(word in body for word in _QUOTA):
        return SearchError(f"{message} The quota is spent.", kind="quota")
    return SearchError(message, kind="transient" if status == 408 or status >= 500 else "auth")
