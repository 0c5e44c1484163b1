"""Search with Google's Custom Search JSON API, until it ends.

The key is sent in the ``X-Goog-Api-Key`` header, which every Google API accepts. In the URL it
would appear in logs and error messages.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.core.http import DEPTH, VALUES, parse_reply
from fitrag_integrations.core.jsonl import check_size
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.errors import SearchError, refuse_if
from fitrag_integrations.values.passage import first_text
from fitrag_integrations.web.search import SearchHit, SearchService

if TYPE_CHECKING:
    import httpx

ENDS = date(2027, 1, 1)
INSTEAD = "Use SearxngSearch, or a search tool through WebSearch.from_tool."
_NEW_PROJECT = "does not have the access to custom search json api"
ENDPOINT = "https://customsearch.googleapis.com"
_NO_SCHEMA = "Google did not answer in JSON of its schema"
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
        none = "api_key: none given, allowed a key, here or in GOOGLE_API_KEY"
        refuse_if(not secret.found, none)
        object.__setattr__(self, "api_key", secret)
        engine = self.engine_id or os.environ.get("GOOGLE_CSE_ID", "")
        object.__setattr__(self, "engine_id", check_text("engine_id", engine, blank=False))
        super().__post_init__()
        warnings.warn(notice(), FutureWarning, stacklevel=3)

    async def _found(self, client: httpx.AsyncClient, query: str) -> list[SearchHit]:
        """Return the hits of one query, or raise why there are none."""
        if not self.api_key.found:
            raise SearchError(f"no key: set {self.api_key.variable}", kind="auth")
        asked = {"q": query, "cx": self.engine_id, "num": self.max_results, "alt": "json"}
        key = {"X-Goog-Api-Key": self.api_key.reveal()}
        url = f"{(self.endpoint or ENDPOINT).rstrip('/')}/customsearch/v1"
        reply, body = await self._get(client, url, "Google", params=asked, headers=key)
        try:
            check_size(body, values=VALUES, depth=DEPTH)
        except ValueError:
            raise SearchError(_NO_SCHEMA, kind="transient") from None
        found = parse_reply(body)
        if reply.status_code != 200:
            raise self._refusal(reply, found)
        items = found.get("items", []) if isinstance(found, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise SearchError(_NO_SCHEMA, kind="transient")
        texts = [[first_text(item, (key,)) for key in SHOWN] for item in items]
        return [SearchHit(*map(self.api_key.redact, each)) for each in texts]

    def _refusal(self, reply: httpx.Response, found: object) -> SearchError:
        """Return the error of a reply that refuses the call; the key is hidden in it."""
        status, said = reply.status_code, found if isinstance(found, dict) else {}
        error = said["error"] if isinstance(said.get("error"), dict) else {}
        reason = first_text(error, ("message",)) or reply.reason_phrase or "no reason given"
        message, told = f"Google answered {status}: {reason.rstrip('.')}.", str(said).lower()
        kind: Any = "transient" if status == 408 or status >= 500 else "auth"
        if _NEW_PROJECT in told:
            message, kind = f"{message} This project came too late. {notice()}", "auth"
        elif status == 429 or any(word in told for word in _QUOTA):
            message, kind = f"{message} The quota is spent.", "quota"
        elif datetime.now(UTC).date() >= ENDS:
            message = f"{message} {notice()}"
        return SearchError(self.api_key.redact(message)[:600], kind=kind)


def notice(today: date | None = None) -> str:
    """Return the warning about the end of the service, as of a day (default: today)."""
    if (today or datetime.now(UTC).date()) >= ENDS:
        return f"Google ended its Custom Search JSON API on {ENDS}. {INSTEAD}"
    closed = "Google's Custom Search JSON API is closed to new customers and ends for all on"
    return f"{closed} {ENDS}. {INSTEAD}"
