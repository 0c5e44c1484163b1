"""The open web as a search port: providers, page reading, the network guard; lazily loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.text.cleaning import clean_text
    from fitrag_integrations.web.pages._page import Page
    from fitrag_integrations.web.pages.cache import PageCache
    from fitrag_integrations.web.pages.guard import NetworkGuard
    from fitrag_integrations.web.pages.reader import PageReader
    from fitrag_integrations.web.search.google import GoogleSearch
    from fitrag_integrations.web.search.providers import SearchProvider
    from fitrag_integrations.web.search.results import SearchHit
    from fitrag_integrations.web.search.search import WebSearch
    from fitrag_integrations.web.search.searxng import SearxngSearch

_MODULE_OF = {
    "GoogleSearch": "search.google",
    "NetworkGuard": "pages.guard",
    "Page": "pages._page",
    "PageCache": "pages.cache",
    "PageReader": "pages.reader",
    "SearchHit": "search.results",
    "SearchProvider": "search.providers",
    "SearxngSearch": "search.searxng",
    "WebSearch": "search.search",
    "clean_text": ".text.cleaning",
}

__all__ = [
    "GoogleSearch",
    "NetworkGuard",
    "Page",
    "PageCache",
    "PageReader",
    "SearchHit",
    "SearchProvider",
    "SearxngSearch",
    "WebSearch",
    "clean_text",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
