"""Search with your own SearXNG instance: no key, and no quota except that of its engines.

The caller chooses its address, which may be private, so the network guard does not apply to it.
``PageReader`` reads the pages it finds under the guard.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fitrag_integrations.core.checks import (
    Text,
    Texts,
    check_text,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import (
    Limits,
    Meter,
    parse_reply,
    read_body,
    retry_after,
    spread,
)
from fitrag_integrations.errors import SearchError, raise_if, refuse_if
from fitrag_integrations.values.passage import first_text
from fitrag_integrations.web.search import SearchHit, SearchService

if TYPE_CHECKING:
    import httpx

_REFUSALS = {
    403: "it does not give JSON: add 'json' to search.formats in its settings.yml",
    404: "no SearXNG there: base_url is the address of its start page",
}


@dataclass(frozen=True)
class SearxngSearch(SearchService):
    """Search provider for a SearXNG instance whose settings allow the format ``json``.

    Redirects are not followed.

    Args:
        base_url: Address of its start page.
        language: SearXNG's name of a language, e.g. ``en`` or ``de-AT``. Defaults to the
            instance's setting, as do ``categories`` and ``engines``.
        categories: SearXNG's names of categories.
        engines: SearXNG's names of engines.
        timeout: Seconds allowed for a whole response.
        tries: Maximum number of attempts for a temporary failure.
        wait: Seconds before the first retry; doubles with each attempt.
        at_once: Maximum number of concurrent calls.

    Raises:
        InputError: If the address or an option is invalid.

    Example:
        >>> search = WebSearch(SearxngSearch("http://127.0.0.1:8888"), pages=PageReader())
    """

    base_url: str
    _: KW_ONLY
    language: Text = ""
    categories: Texts = ()
    engines: Texts = ()
    name = "searxng"

    def __post_init__(self) -> None:
        text = check_text("base_url", self.base_url, blank=False).strip().rstrip("/")
        try:
            parts = urlsplit(text)
            is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_one = False
        refuse_if(
            not is_one or parts.username is not None or parts.query or parts.fragment,
            "base_url",
            "[hidden]" if "@" in text else text,
            "an address like http://127.0.0.1:8888, without user name, query or fragment",
        )
        object.__setattr__(self, "base_url", text)
        super().__post_init__()

    async def ahits(self, queries: Sequence[str], /) -> list[list[SearchHit] | Exception]:
        """Search for each query concurrently.

        Returns:
            For each query a list of ``SearchHit``, empty if nothing was found, or a
            ``SearchError``: "auth" (refused, or no JSON), "quota" (its limiter, or its engines'
            limits if no other engine found anything) or "transient".
        """
        httpx = require_extra("httpx", extra="web", feature="SearxngSearch")
        options = self._retrying(extra="web")
        from tenacity import AsyncRetrying

        # a client belongs to one event loop, so each call creates its own
        async with httpx.AsyncClient(timeout=self.timeout, follow_redirects=False) as client:

            async def answer(query: str) -> list[SearchHit]:
                return await AsyncRetrying(**options)(self._ask, client, query)

            return await spread(answer, queries, self.at_once)

    async def _ask(self, client: httpx.AsyncClient, query: str) -> list[SearchHit]:
        import httpx

        chosen = {
            "language": self.language,
            "categories": ",".join(self.categories),
            "engines": ",".join(self.engines),
        }
        asked = {name: value for name, value in chosen.items() if value}
        try:
            async with (
                asyncio.timeout(self.timeout),
                client.stream(
                    "GET",
                    f"{self.base_url}/search",
                    params={"q": query, "format": "json", **asked},
                    headers={"Accept-Encoding": "gzip"},
                ) as reply,
            ):
                meter = Meter(reply.headers.get("content-encoding", ""), Limits())
                body = await read_body(reply.aiter_raw(), meter)
        except (TimeoutError, httpx.RequestError) as error:
            raise SearchError(
                f"{self.base_url} did not answer: {type(error).__name__}: {error}", kind="transient"
            ) from error
        except SearchError as error:
            raise SearchError(
                f"the answer of {self.base_url} was not read: {error}", kind=error.kind
            ) from error
        self._check_status(reply)
        found = parse_reply(body)
        if not isinstance(found, dict):
            message = f"{self.base_url} answered, but not in JSON: is it behind a login page?"
            raise SearchError(message, kind="auth")
        return _hits(found)

    def _check_status(self, reply: httpx.Response) -> None:
        status = reply.status_code
        if status == 200:
            return
        answer = f"{self.base_url} answered {status}"
        if status == 429:
            after = retry_after(reply.headers.get("retry-after"))
            again = "" if after is None else f"; try again after {after:.0f} s"
            raise SearchError(f"{answer}: its limiter refuses more calls{again}", kind="quota")
        raise_if(status == 408 or status >= 500, SearchError, answer, kind="transient")
        if reply.is_redirect:
            to = reply.headers.get("location", "")
            raise SearchError(f"{answer}: it redirects to {to!r}; pass that address", kind="auth")
        raise SearchError(f"{answer}: {_REFUSALS.get(status, 'it refuses the call')}", kind="auth")


def _hits(found: dict[str, object]) -> list[SearchHit]:
    """Parse the results; failed engines are an error only if no other engine found anything."""
    hits = []
    for item in (item for item in _list(found.get("results")) if isinstance(item, dict)):
        title, url, snippet = (first_text(item, (key,)) for key in ("title", "url", "content"))
        kept = {key: item[key] for key in ("engine", "score", "publishedDate") if item.get(key)}
        hits.append(SearchHit(title, url, snippet, kept))
    engines = _list(found.get("unresponsive_engines"))
    failed = [" ".join(map(str, _list(engine) or [engine])) for engine in engines]
    if failed and not hits:
        message = f"nothing found, and these engines failed: {'; '.join(failed)}"
        is_spent = re.search("too many requests|captcha|access denied", message.lower())
        raise SearchError(message, kind="quota" if is_spent else "transient")
    return hits


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
