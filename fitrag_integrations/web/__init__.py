"""The open web as a search port: providers, page reading, the network guard; lazily loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.text.cleaning import clean_text
    from fitrag_integrations.web.google import GoogleSearch
    from fitrag_integrations.web.guard import NetworkGuard
    from fitrag_integrations.web.pages import Page, PageCache, PageReader
    from fitrag_integrations.web.search import SearchHit, SearchProvider, WebSearch
    from fitrag_integrations.web.searxng import SearxngSearch

_MODULE_OF = {
    "GoogleSearch": "google",
    "NetworkGuard": "guard",
    "Page": "pages",
    "PageCache": "pages",
    "PageReader": "pages",
    "SearchHit": "search",
    "SearchProvider": "search",
    "SearxngSearch": "searxng",
    "WebSearch": "search",
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
