"""The open web as a search port: providers, page reading, the network guard; lazily loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations._lazy import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.web._page import Page
    from fitrag_integrations.web.cache import PageCache
    from fitrag_integrations.web.cleaning import clean_text
    from fitrag_integrations.web.google import GoogleSearch
    from fitrag_integrations.web.guard import NetworkGuard
    from fitrag_integrations.web.pages import PageReader
    from fitrag_integrations.web.providers import SearchProvider
    from fitrag_integrations.web.results import SearchHit
    from fitrag_integrations.web.search import WebSearch
    from fitrag_integrations.web.searxng import SearxngSearch

_MODULE_OF = {
    "GoogleSearch": "google",
    "NetworkGuard": "guard",
    "Page": "_page",
    "PageCache": "cache",
    "PageReader": "pages",
    "SearchHit": "results",
    "SearchProvider": "providers",
    "SearxngSearch": "searxng",
    "WebSearch": "search",
    "clean_text": "cleaning",
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
