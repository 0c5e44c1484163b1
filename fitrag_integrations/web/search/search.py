"""The web as a search port: a provider's results, the pages behind them, or their snippets.

CRAG, section 4.5: Wikipedia preferred, not required; five results. A page that gives no text is
stood in for by its own snippet, so no result changes places with another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypeAlias

from fitrag_integrations.core.checks import check_many, check_text, check_whole
from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.text.site import site_of
from fitrag_integrations.types import Passage
from fitrag_integrations.web.search.calls import waited
from fitrag_integrations.web.search.providers import (
    PageReading,
    ask_provider,
    check_provider,
    name_of,
)
from fitrag_integrations.web.search.results import (
    SearchHit,
    hits_of,
    page_passage,
    snippet_passage,
    with_metadata,
)
from fitrag_integrations.web.search.tools import ToolProvider

Answer: TypeAlias = list[Passage] | Exception
Ranked: TypeAlias = tuple[int, SearchHit]  # the provider's rank, from 1


@dataclass(frozen=True)
class WebSearch:
    """Answer queries with passages from the web; satisfies ``Ports(search=...)``.

    Of a query's results those of the domains in ``prefer`` come first, otherwise the provider's
    order holds; a URL counts once, and ``max_results`` are kept. With ``pages`` (a ``PageReader``)
    the pages of all queries are read side by side, each URL once, and the text of a passage is
    its page's paragraphs; a page that fails or is blank is answered with its snippet and
    ``metadata["page_error"]``, or with ``on_page_error="raise"`` fails its query. Without ``pages``
    every text is a snippet. What has neither is left out, and ``metadata["left_out"]`` of the
    others says how many were. ``provider`` is a ``SearchProvider``; ``from_tool`` takes the rest.
    """

    provider: object
    _: KW_ONLY
    max_results: int = 5
    pages: PageReading | None = None
    prefer: Sequence[str] = ("wikipedia.org",)
    on_page_error: str = "snippet"

    def __post_init__(self) -> None:
        check_whole("max_results", self.max_results, low=1)
        object.__setattr__(self, "prefer", check_many("prefer", self.prefer, str))
        if self.on_page_error not in ("snippet", "raise"):
            allowed = "'snippet' or 'raise'"
            raise InputError.of("on_page_error", given=self.on_page_error, allowed=allowed)
        if self.pages is not None and not isinstance(self.pages, PageReading):
            raise InputError.of("pages", given=self.pages, allowed="an object with 'aread'")
        check_provider(self.provider)

    @classmethod
    def from_tool(cls, tool: object, *, at_once: int = 16, **options: Any) -> Self:
        """Search with any LangChain tool or Runnable, LlamaIndex tool or function of one query.

        It may give what ``hits_of`` reads: dicts with title, url and snippet, Documents, nodes,
        texts, JSON. ``at_once`` bounds its calls, ``options`` are those of ``WebSearch``.
        """
        return cls(ToolProvider(tool, at_once=at_once), **options)

    @property
    def name(self) -> str:
        """Give the provider's name, or that of its class."""
        return name_of(self.provider)

    def search(self, queries: Sequence[str], /) -> list[Answer]:
        """Find passages for each query; also works where an event loop is running."""
        return waited(lambda: self.asearch(queries))

    async def asearch(self, queries: Sequence[str], /) -> list[Answer]:
        """Find passages for each query without blocking the event loop.

        Each answer is a list of ``Passage``, empty where the search found nothing, or the
        exception that query failed with: a ``SearchError`` of kind ``empty`` where there were
        results but none had a text.
        """
        texts = [
            str(check_text("query", q, blank=False)) for q in check_many("queries", queries, str)
        ]
        if not texts:
            return []
        answers = await ask_provider(self.provider, texts)
        found = await asyncio.to_thread(lambda: [self._chosen(answer) for answer in answers])
        pages = await self._pages(found)
        return await asyncio.to_thread(lambda: [self._passages(hits, pages) for hits in found])

    def _chosen(self, answer: object) -> list[Ranked] | Exception:
        """Read an answer and keep the best results: distinct, the preferred domains first."""
        if isinstance(answer, Exception):
            return answer
        try:
            distinct: dict[str, Ranked] = {}
            for rank, hit in enumerate(hits_of(answer), start=1):
                distinct.setdefault(hit.url.partition("#")[0] or hit.snippet, (rank, hit))
        except RecursionError:
            return SearchError("the search gave what is nested too deeply", kind="transient")
        except Exception as error:  # this query's alone
            return error
        ordered = sorted(distinct.values(), key=lambda ranked: not self._prefers(ranked[1].url))
        return ordered[: self.max_results]

    def _prefers(self, url: str) -> bool:
        host = f".{site_of(url)}"
        return any(host.endswith(f".{domain.lower().lstrip('.')}") for domain in self.prefer)

    async def _pages(self, found: Sequence[list[Ranked] | Exception]) -> dict[str, object]:
        """Read the pages of all queries in one call, by URL."""
        lists = [hits for hits in found if not isinstance(hits, Exception)]
        urls = list(dict.fromkeys(hit.url for hits in lists for _, hit in hits if hit.url))
        if self.pages is None or not urls:
            return {}
        try:
            return dict(zip(urls, await self.pages.aread(urls), strict=True))
        except Exception as error:  # the search has answered; its snippets can stand in
            return dict.fromkeys(urls, error)

    def _passages(self, hits: list[Ranked] | Exception, pages: dict[str, object]) -> Answer:
        if isinstance(hits, Exception):
            return hits
        try:
            made = [self._passage(rank, hit, pages) for rank, hit in hits]
        except SearchError as error:
            return error
        except InputError as error:  # such as metadata nested beyond reading
            return SearchError(f"the search gave what cannot be kept: {error}", kind="transient")
        kept = [passage for passage in made if passage.text]
        left_out = len(made) - len(kept)
        if made and not kept:
            return SearchError(f"{left_out} results, none with a text to read", kind="empty")
        return [with_metadata(passage, left_out=left_out) for passage in kept] if left_out else kept

    def _passage(self, rank: int, hit: SearchHit, pages: dict[str, object]) -> Passage:
        about: dict[str, object] = {"provider": self.name, "rank": rank}
        page = pages.get(hit.url)
        if page is None:
            return snippet_passage(hit, about)
        if isinstance(page, Exception):
            error = _search_error(page)
        elif (passage := page_passage(hit, page, about)).text:
            return passage
        else:
            error = SearchError("the page gave no text", kind="empty")
        if self.on_page_error == "raise":
            raise error
        about["page_error"] = {"kind": error.kind, "message": str(error)}
        return snippet_passage(hit, about)


class SearchesAsPort:
    """Let a provider stand where a search port is wanted, as ``WebSearch(provider)``."""

    def search(self, queries: Sequence[str], /) -> list[Answer]:
        """Find passages, of snippets, for each query, as ``WebSearch(self)`` does."""
        return WebSearch(self).search(queries)

    async def asearch(self, queries: Sequence[str], /) -> list[Answer]:
        """Find passages for each query without blocking the event loop."""
        return await WebSearch(self).asearch(queries)


def _search_error(error: Exception) -> SearchError:
    while isinstance(error, ExceptionGroup):  # of tasks that ran side by side
        error = error.exceptions[0]
    if isinstance(error, SearchError):
        return error
    return SearchError(f"{type(error).__name__}: {error}", kind="transient")
