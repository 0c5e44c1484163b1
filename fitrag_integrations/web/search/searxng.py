"""Search with a SearXNG of one's own: no key, no quota but its engines'.

Its address is the caller's choice and may be a private one, so the network guard has no part here;
the pages it finds are another matter, which ``PageReader`` reads under the guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fitrag_integrations.core.checks import check_many, check_number, check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import read_reply, retry_after
from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.values.search_results import first_text
from fitrag_integrations.web.search.calls import aspread, retry_options, waited
from fitrag_integrations.web.search.results import SearchHit
from fitrag_integrations.web.search.search import SearchesAsPort

if TYPE_CHECKING:
    import httpx

_SPENT = ("too many requests", "captcha", "access denied")
_REFUSALS = {
    403: "it does not give JSON: add 'json' to search.formats in its settings.yml",
    404: "no SearXNG there: base_url is the address of its start page",
}


@dataclass(frozen=True)
class SearxngSearch(SearchesAsPort):
    """Find web pages with a SearXNG instance whose settings allow the format ``json``.

    ``base_url`` is the address of its start page. ``language`` (``en``, ``de-AT``), ``categories``
    and ``engines`` are SearXNG's own names; left out, the instance decides. A call lasts
    ``timeout`` seconds at most; a passing fault is tried ``tries`` times in all, ``wait`` seconds
    and more apart. ``at_once`` bounds the calls of one batch. Redirects are not followed.
    """

    base_url: str
    _: KW_ONLY
    language: str = ""
    categories: Sequence[str] = ()
    engines: Sequence[str] = ()
    timeout: float = 10.0
    tries: int = 3
    wait: float = 0.5
    at_once: int = 8
    name = "searxng"

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", _checked_address(self.base_url))
        check_text("language", self.language)
        object.__setattr__(self, "categories", check_many("categories", self.categories, str))
        object.__setattr__(self, "engines", check_many("engines", self.engines, str))
        check_number("timeout", self.timeout, low=0.001)
        check_number("wait", self.wait, low=0.0)
        check_whole("tries", self.tries, low=1)
        check_whole("at_once", self.at_once, low=1)

    def hits(self, queries: Sequence[str], /) -> list[list[SearchHit] | Exception]:
        """Search for each query; also works where an event loop is running."""
        return waited(lambda: self.ahits(queries))

    async def ahits(self, queries: Sequence[str], /) -> list[list[SearchHit] | Exception]:
        """Search for each query, side by side.

        An answer is a list of ``SearchHit``, empty where nothing was found, or a ``SearchError``:
        ``auth`` (refused, or no JSON), ``quota`` (its limiter, or its engines' limits where no
        other engine found anything) or ``transient``.
        """
        httpx = require_extra("httpx", extra="web", feature="SearxngSearch")
        options = retry_options(self.tries, self.wait, feature="SearxngSearch", extra="web")
        from tenacity import AsyncRetrying

        # a client belongs to the loop it was made in, so each call makes its own
        async with httpx.AsyncClient(timeout=self.timeout, follow_redirects=False) as client:

            async def answer(query: str) -> list[SearchHit]:
                found: list[SearchHit] = await AsyncRetrying(**options)(self._ask, client, query)
                return found

            return await aspread(answer, queries, self.at_once)

    async def _ask(self, client: httpx.AsyncClient, query: str) -> list[SearchHit]:
        import httpx

        try:
            reply = await read_reply(
                client,
                "GET",
                f"{self.base_url}/search",
                seconds=self.timeout,
                params=self._parameters(query),
            )
        except httpx.RequestError as error:
            told = f"{self.base_url} did not answer: {type(error).__name__}: {error}"
            kind = "blocked" if isinstance(error, httpx.DecodingError) else "transient"
            raise SearchError(told, kind=kind) from error
        self._check_status(reply)
        try:
            found = reply.json()
        except (ValueError, RecursionError):  # no JSON, or nested beyond reading
            found = None
        if not isinstance(found, dict):
            told = f"{self.base_url} answered, but not in JSON: is a login page before it?"
            raise SearchError(told, kind="auth")
        return _read(found)

    def _parameters(self, query: str) -> dict[str, str]:
        chosen = {
            "language": self.language,
            "categories": ",".join(self.categories),
            "engines": ",".join(self.engines),
        }
        given = {name: value for name, value in chosen.items() if value}
        return {"q": query, "format": "json", **given}

    def _check_status(self, reply: httpx.Response) -> None:
        status = reply.status_code
        if status == 200:
            return
        told = f"{self.base_url} answered {status}"
        if status == 429:
            after = retry_after(reply.headers.get("retry-after"))
            again = "" if after is None else f"; try again after {after:.0f} s"
            raise SearchError(f"{told}: its limiter refuses more calls{again}", kind="quota")
        if status == 408 or status >= 500:
            raise SearchError(told, kind="transient")
        if reply.is_redirect:
            to = reply.headers.get("location", "")
            raise SearchError(f"{told}: it redirects to {to!r}; give that address", kind="auth")
        raise SearchError(f"{told}: {_REFUSALS.get(status, 'it refuses the call')}", kind="auth")


def _read(found: dict[str, object]) -> list[SearchHit]:
    """Read the results; engines that failed count only where no other found anything."""
    hits = [_hit(item) for item in _list(found.get("results")) if isinstance(item, dict)]
    engines = _list(found.get("unresponsive_engines"))
    failed = [" ".join(map(str, _list(engine) or [engine])) for engine in engines]
    if hits or not failed:
        return hits
    told = f"nothing found, and these engines failed: {'; '.join(failed)}"
    is_spent = any(word in told.lower() for word in _SPENT)
    raise SearchError(told, kind="quota" if is_spent else "transient")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _hit(item: dict[str, object]) -> SearchHit:
    title, url, snippet = (first_text(item, (key,)) for key in ("title", "url", "content"))
    kept = {key: item[key] for key in ("engine", "score", "publishedDate") if item.get(key)}
    return SearchHit(title, url, snippet, kept)


def _checked_address(url: object) -> str:
    text = check_text("base_url", url, blank=False).strip().rstrip("/")
    allowed = "an address like http://127.0.0.1:8888, without user name, query or fragment"
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.username is not None or parts.query or parts.fragment:
        shown = "[hidden]" if "@" in text else text
        raise InputError.of("base_url", given=shown, allowed=allowed)
    return text
