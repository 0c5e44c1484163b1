"""The open web as a search port: providers, page reading, the network guard; lazily loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.text.cleaning import clean_text as clean_text
    from fitrag_integrations.web.google import GoogleSearch as GoogleSearch
    from fitrag_integrations.web.guard import NetworkGuard as NetworkGuard
    from fitrag_integrations.web.pages import Page as Page
    from fitrag_integrations.web.pages import PageCache as PageCache
    from fitrag_integrations.web.pages import PageReader as PageReader
    from fitrag_integrations.web.search import SearchHit as SearchHit
    from fitrag_integrations.web.search import SearchProvider as SearchProvider
    from fitrag_integrations.web.search import WebSearch as WebSearch
    from fitrag_integrations.web.searxng import SearxngSearch as SearxngSearch

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
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
    },
)
