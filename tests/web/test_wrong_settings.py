"""Wrong settings of whatever reads the web are refused by name where it is made."""

from functools import partial

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.web import (
    GoogleSearch,
    NetworkGuard,
    PageCache,
    PageReader,
    SearxngSearch,
    WebSearch,
)


class Provider:
    def hits(self, queries):
        return [[] for _ in queries]


GOOGLE, SEARXNG = partial(GoogleSearch, "key", "engine"), partial(SearxngSearch, "http://x.example")
SEARCH, TOOL = partial(WebSearch, Provider()), partial(WebSearch.from_tool, lambda query: [])
WRONG = {
    NetworkGuard: [
        ("allow_addresses", ["10.0.0.0/33"]),
        ("allow_addresses", "10.0.0.0/8"),
        ("allow_domains", "example.org"),
        ("deny_domains", ["exa mple"]),
        *(("ports", ports) for ports in ([0], [True])),
        ("max_redirects", -1),
        ("max_bytes", 0),
        *(("page_seconds", seconds) for seconds in (0, float("nan"))),
        ("resolver", "127.0.0.1"),
        ("user_agent", "a\r\nCookie: b"),
    ],
    partial(PageCache, "cache"): [("expires_seconds", -1), ("max_bytes", 0)],
    PageCache: [("folder", __file__)],
    PageReader: [("guard", "x"), ("cache", "folder"), ("max_concurrency", 0), ("retries", -1)],
    SEARCH: [
        ("max_results", 0),
        ("prefer", "wikipedia.org"),
        ("pages", object()),
        ("on_page_error", "ignore"),
    ],
    WebSearch: [("provider", wrong) for wrong in (object(), Provider, lambda query: [])],
    TOOL: [("at_once", 0)],
    WebSearch.from_tool: [("tool", wrong) for wrong in (None, 3, "tavily", Provider, object())],
    GOOGLE: [("timeout", 0), ("tries", 0), ("at_once", 0), ("max_results", 11), ("wait", -1)],
    SEARXNG: [("timeout", 0), ("tries", 0), ("at_once", 0), ("engines", "bing"), ("language", 1)],
}


@pytest.mark.parametrize(
    ("make", "field", "value"), [(make, *wrong) for make, every in WRONG.items() for wrong in every]
)
def test_a_wrong_setting_is_told_by_its_name(make, field, value):
    with pytest.raises(InputError, match=f"{field}.*` must be"):
        make(**{field: value})
