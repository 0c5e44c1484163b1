"""The web as a search port: a provider's results, with the text of their pages or their snippets.

CRAG, section 4.5: Wikipedia preferred, not required; five results. A page without text is replaced
by its own snippet, so no result changes its rank.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from inspect import iscoroutinefunction
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    runtime_checkable,
)

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Seconds,
    Text,
    Texts,
    can,
    check_many,
    check_number,
    check_text,
    trait,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import finish, spread
from fitrag_integrations.core.record import Record, check_mapping, plain
from fitrag_integrations.errors import InputError, PortError, SearchError, raise_if, refuse_if
from fitrag_integrations.text.cleaning import clean_text, site_of
from fitrag_integrations.types import Passage
from fitrag_integrations.values.passage import made_id, pages_of

_SET_HERE = ("snippet", "page_error", "final_url", "left_out")  # never taken from the service


@dataclass(frozen=True, slots=True)
class SearchHit(Record, Checked):
    """One search result as its service returned it.

    Args:
        title: Title; may be empty.
        url: Address; may be empty.
        snippet: Text shown for the result; may be empty.
        metadata: Further fields of the service, such as a score or an engine.
    """

    title: Text
    url: Text
    snippet: Text
    metadata: Annotated[Mapping[str, Any], check_mapping] = field(default_factory=dict, hash=False)


def hits_of(found: object) -> list[SearchHit]:
    """Parse what a provider or a tool returned for one query, in its order.

    Args:
        found: Hits, passages, texts, ``{title, url, snippet}`` dicts under the usual names,
            LangChain Documents and tool messages, LlamaIndex nodes and tool outputs, or objects
            with a ``url``; one or several, also under ``results`` and the like, or JSON of them.

    Raises:
        SearchError: If a tool reports an error.
        InputError: For anything else.
    """
    found = _unwrapped(found)
    if isinstance(found, Mapping) and found.get("error") and not found.get("results"):
        raise SearchError(f"the search tool reported: {found['error']}", kind="transient")
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping):
        found = [_readable(item) for item in found]
    pages = pages_of(
        found,
        (SearchHit,),
        lambda hit: Passage(
            hit.url or made_id(hit.snippet), hit.snippet, hit.title, hit.url, hit.metadata
        ),
    )
    return [
        SearchHit(
            page.title,
            page.source,
            page.text,
            {
                key: value
                for key, value in page.metadata.items()
                if not (isinstance(value, str) and value in (page.title, page.source))
            },
        )
        for page in pages
    ]


def web_passage(hit: SearchHit, about: Mapping[str, object], page: Any = None) -> Passage:
    """Build the passage of a hit from its page's cleaned paragraphs, separated by blank lines.

    Without a page it is the snippet, and ``metadata["snippet"]`` is True. The id is the URL, or
    derived from the text if there is none. ``metadata`` holds the fields of the service, ``about``,
    ``web``, ``url``, ``trust`` (always ``"untrusted"``) and ``retrieved_at`` (the day the page was
    fetched, else today, in UTC as YYYY-MM-DD); with a page that moved also ``final_url``.
    """
    title, paragraphs, own = hit.title, [hit.snippet], dict[str, object](snippet=True)
    if page is not None:
        own = {} if page.final_url == hit.url else {"final_url": page.final_url}
        own["retrieved_at"] = page.fetched_at[:10]  # a page may come from the cache
        title, paragraphs = hit.title or page.title, page.paragraphs
    cleaned = (clean_text(paragraph).strip() for paragraph in paragraphs)
    text = "\n\n".join(paragraph for paragraph in cleaned if paragraph)
    metadata = {
        **{key: value for key, value in plain(hit.metadata).items() if key not in _SET_HERE},
        "retrieved_at": datetime.now(UTC).date().isoformat(),
        **about,
        **own,
        "web": True,
        "url": hit.url,
        "trust": "untrusted",
    }
    heading = " ".join(clean_text(title).split())
    return Passage(hit.url or made_id(text), text, heading, hit.url, metadata)


def _unwrapped(found: Any) -> Any:
    """Return the content of a LlamaIndex tool output, a tool message or a reply object."""
    content = getattr(found, "content", found)
    if trait(found, "is_error", bool) or trait(found, "status", str) == "error":
        raise SearchError(f"the search tool failed: {content}", kind="transient")
    if hasattr(found, "raw_output"):
        return _unwrapped(content if found.raw_output is None else found.raw_output)
    if hasattr(found, "tool_call_id"):
        return content
    if (results := trait(found, "results", list)) is not None:
        return results
    return [found] if _is_result(found) else found


def _is_result(item: object) -> bool:
    return any(hasattr(item, name) for name in ("page_content", "get_content", "node", "url"))


def _readable(item: Any) -> Any:
    """Convert a Document, a node or an object with a ``url`` to a dict; return others unchanged."""
    if isinstance(item, SearchHit | Passage | str | Mapping) or not _is_result(item):
        return item
    item = item.node if hasattr(item, "node") else item
    if hasattr(item, "get_content"):
        return {**(item.metadata or {}), "snippet": item.get_content()}
    if hasattr(item, "page_content"):
        return {**(item.metadata or {}), "snippet": item.page_content}
    return dict(vars(item))


CALLS = ("ahits", "hits", "asearch", "search")  # the first that is there is used


@runtime_checkable
class SearchProvider(Protocol):
    """Finds web pages for each query, best first; n queries in, n answers out.

    An answer is a list of ``SearchHit`` or of anything ``hits_of`` reads, or the exception of that
    query. ``ahits`` is the optional async version, ``name`` the optional name.
    """

    def hits(self, queries: Sequence[str], /) -> Sequence[object]:
        """Return one answer per query, in order."""


@runtime_checkable
class PageReading(Protocol):
    """Reader of web pages."""

    async def aread(self, urls: Sequence[str], /) -> Sequence[object]:
        """Return a ``Page``, an object with its fields, or an exception per address, in order."""


@dataclass(frozen=True)
class ToolProvider(Checked):
    """Search provider that calls a tool once per query.

    A tool with an async method is awaited; any other runs in threads. The answer to a query is
    what the tool returned or raised.

    Args:
        tool: Object with ``invoke`` (a LangChain tool, retriever or chain), a LlamaIndex tool, or
            a function or coroutine function of one query.
        at_once: Maximum number of concurrent calls.
    """

    tool: object
    _: KW_ONLY
    at_once: Count = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        _calls_of(self.tool)

    @property
    def name(self) -> str:
        """The tool's own name, or that of its function or class."""
        described = trait(self.tool, "metadata", object)
        own = trait(self.tool, "name", str), trait(described, "name", str)
        names = *own, trait(self.tool, "__qualname__", str)
        return next(filter(None, names), type(self.tool).__name__)

    def hits(self, queries: Sequence[str], /) -> list[object]:
        """Call the tool for each query."""
        return finish(lambda: self.ahits(queries))

    async def ahits(self, queries: Sequence[str], /) -> list[object]:
        """Async version of ``hits``."""
        call, acall = _calls_of(self.tool)
        return await spread(acall or call, queries, self.at_once, threads=acall is None)


def _calls_of(tool: Any) -> tuple[Callable[[str], Any], Callable[[str], Any] | None]:
    """Return the tool's sync call and its async call, if it has one."""
    if can(tool, "invoke"):
        return tool.invoke, getattr(tool, "ainvoke", None)
    if callable(tool) and not isinstance(tool, type):
        if iscoroutinefunction(tool) or iscoroutinefunction(tool.__call__):  # noqa: B004
            return tool, tool
        return tool, getattr(tool, "acall", None)
    raise InputError.of(
        "tool",
        given=tool,
        allowed="a tool with 'invoke', a LlamaIndex tool, or a function of one query",
    )


Answer: TypeAlias = list[Passage] | Exception
Ranked: TypeAlias = tuple[int, SearchHit]  # the provider's rank, from 1


@dataclass(frozen=True)
class WebSearch(Checked):
    """Web search that answers queries with passages, for ``Ports(search=...)``.

    Each URL counts once. A result with neither page text nor snippet is left out, and
    ``metadata["left_out"]`` of the others is the number of these.

    Args:
        provider: A ``SearchProvider``; for a tool or a function use ``from_tool``.
        max_results: Maximum number of passages per query.
        pages: ``PageReader`` for the pages of all queries, each URL read once; the text of a
            passage is then its page's paragraphs. None uses the snippets.
        prefer: Domains whose results come first; otherwise the provider's order is kept.
        on_page_error: "snippet" replaces a page that fails or is blank by its snippet, with
            ``metadata["page_error"]``; "raise" fails the query.

    Raises:
        InputError: If an argument is invalid.

    Example:
        >>> search = WebSearch(SearxngSearch("http://127.0.0.1:8888"), pages=PageReader())
        >>> retriever = CorrectiveRetriever(base=base, search=search)
    """

    provider: object
    _: KW_ONLY
    max_results: Count = 5
    pages: PageReading | None = None
    prefer: Texts = ("wikipedia.org",)
    on_page_error: Literal["snippet", "raise"] = "snippet"

    def __post_init__(self) -> None:
        super().__post_init__()
        reads = self.pages is None or isinstance(self.pages, PageReading)
        refuse_if(not reads, "pages", self.pages, "an object with 'aread'")
        refuse_if(
            not any(can(self.provider, name) for name in CALLS),
            "provider",
            self.provider,
            "an object with a 'hits' method; for a tool use WebSearch.from_tool(tool)",
        )

    @classmethod
    def from_tool(cls, tool: object, *, at_once: int = 16, **options: Any) -> Self:
        """Build a search from any tool or function.

        Args:
            tool: LangChain tool or Runnable, LlamaIndex tool, or function of one query. It may
                return dicts with title, url and snippet, Documents, nodes, texts, or JSON.
            at_once: Maximum number of concurrent calls.
            **options: Options of ``WebSearch``.
        """
        return cls(ToolProvider(tool, at_once=at_once), **options)

    @property
    def name(self) -> str:
        """The provider's name, or that of its class."""
        return str(getattr(self.provider, "name", "") or type(self.provider).__name__)

    def search(self, queries: Sequence[str], /) -> list[Answer]:
        """Find passages for each query; also works where an event loop is running."""
        return finish(lambda: self.asearch(queries))

    async def asearch(self, queries: Sequence[str], /) -> list[Answer]:
        """Find passages for each query without blocking the event loop.

        Each answer is a list of ``Passage``, empty where the search found nothing, or the
        exception that query failed with: a ``SearchError`` of kind ``empty`` where there were
        results but none had a text.

        Raises:
            PortError: If the provider returns another number of answers than queries.
        """
        texts = [
            str(check_text("query", q, blank=False)) for q in check_many("queries", queries, str)
        ]
        if not texts:
            return []
        name = next(name for name in CALLS if can(self.provider, name))
        call = getattr(self.provider, name)
        answers = list(await (call(texts) if name[0] == "a" else asyncio.to_thread(call, texts)))
        raise_if(
            len(answers) != len(texts),
            PortError,
            f"{self.name} got {len(texts)} queries but returned {len(answers)} answers",
        )
        found = await asyncio.to_thread(lambda: [self._chosen(answer) for answer in answers])
        pages = await self._pages(found)
        return await asyncio.to_thread(lambda: [self._passages(hits, pages) for hits in found])

    def _chosen(self, answer: object) -> list[Ranked] | Exception:
        """Return the best results of an answer: distinct, the preferred domains first."""
        if isinstance(answer, Exception):
            return answer
        try:
            distinct: dict[str, Ranked] = {}
            for rank, hit in enumerate(hits_of(answer), start=1):
                distinct.setdefault(hit.url.partition("#")[0] or hit.snippet, (rank, hit))
        except RecursionError:
            return SearchError("the search result is nested too deeply", kind="transient")
        except Exception as error:  # of this query alone
            return error
        domains = tuple(f".{domain.lower().lstrip('.')}" for domain in self.prefer)
        return sorted(
            distinct.values(), key=lambda ranked: not f".{site_of(ranked[1].url)}".endswith(domains)
        )[: self.max_results]

    async def _pages(self, found: Sequence[list[Ranked] | Exception]) -> dict[str, object]:
        """Read the pages of all queries in one call, by URL."""
        lists = [hits for hits in found if not isinstance(hits, Exception)]
        urls = list(dict.fromkeys(hit.url for hits in lists for _, hit in hits if hit.url))
        if self.pages is None or not urls:
            return {}
        try:
            return dict(zip(urls, await self.pages.aread(urls), strict=True))
        except Exception as error:  # the snippets can replace the pages
            return dict.fromkeys(urls, error)

    def _passages(self, hits: list[Ranked] | Exception, pages: dict[str, object]) -> Answer:
        if isinstance(hits, Exception):
            return hits
        try:
            made = [self._passage(rank, hit, pages) for rank, hit in hits]
        except SearchError as error:
            return error
        except InputError as error:  # such as metadata nested beyond reading
            return SearchError(f"the search result is not valid: {error}", kind="transient")
        kept = [passage for passage in made if passage.text]
        left_out = len(made) - len(kept)
        if made and not kept:
            return SearchError(f"{left_out} results, none with a text to read", kind="empty")
        if not left_out:
            return kept
        return [replace(one, metadata={**one.metadata, "left_out": left_out}) for one in kept]

    def _passage(self, rank: int, hit: SearchHit, pages: dict[str, object]) -> Passage:
        about: dict[str, object] = {"provider": self.name, "rank": rank}
        page = pages.get(hit.url)
        if page is None:
            return web_passage(hit, about)
        while isinstance(page, ExceptionGroup):  # of tasks that ran side by side
            page = page.exceptions[0]
        if isinstance(page, SearchError):
            error = page
        elif isinstance(page, Exception):
            error = SearchError(f"{type(page).__name__}: {page}", kind="transient")
        elif (passage := web_passage(hit, about, page)).text:
            return passage
        else:
            error = SearchError("the page has no text", kind="empty")
        if self.on_page_error == "raise":
            raise error
        about["page_error"] = {"kind": error.kind, "message": str(error)}
        return web_passage(hit, about)


@dataclass(frozen=True, kw_only=True)
class SearchService(Checked):
    """Base of the providers over a service; each is also a search port, as ``WebSearch`` is."""

    timeout: Seconds = 10.0
    tries: Count = 3
    wait: Annotated[float, partial(check_number, low=0.0)] = 0.5
    at_once: Count = 8

    def hits(self, queries: Sequence[str], /) -> list[list[SearchHit] | Exception]:
        """Search for each query; also works inside a running event loop."""
        return finish(lambda: self.ahits(queries))

    async def ahits(self, queries: Sequence[str], /) -> list[list[SearchHit] | Exception]:
        """Search for each query concurrently."""
        raise NotImplementedError

    def _retrying(self, *, extra: str) -> dict[str, Any]:
        """Return tenacity's options; only temporary failures are retried.

        The wait between two attempts is random, below ``wait`` seconds, then twice that, and so on.
        """
        tenacity = require_extra("tenacity", extra=extra, feature=type(self).__name__)
        return {
            "stop": tenacity.stop_after_attempt(self.tries),
            "wait": tenacity.wait_random_exponential(multiplier=self.wait, max=30),
            "retry": tenacity.retry_if_exception(
                lambda error: isinstance(error, SearchError) and error.kind == "transient"
            ),
            "reraise": True,
        }

    def search(self, queries: Sequence[str], /) -> list[Answer]:
        """Return passages, made of snippets, for each query, as ``WebSearch(self)`` does."""
        return WebSearch(self).search(queries)

    async def asearch(self, queries: Sequence[str], /) -> list[Answer]:
        """Async version of ``search``."""
        return await WebSearch(self).asearch(queries)
