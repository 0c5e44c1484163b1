"""Read the results of the usual search services and tools, whatever their field names."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.values.passage import Passage, first_text, made_id

URL_KEYS = ("url", "link", "href", "source")
TEXT_KEYS = ("snippet", "content", "text", "body", "page_content")
LIST_KEYS = ("results", "organic", "organic_results", "items")


def pages_of(
    found: Any, kinds: tuple[type, ...], convert: Callable[[Any], Passage]
) -> list[Passage]:
    """Read the results of a search for one query.

    Accepts passages, texts, or ``{title, url, snippet}`` dicts under the field names of the usual
    providers: one or several, also under a key such as ``"results"``, or as JSON. ``convert`` reads
    the framework's own ``kinds``. Raises ``InputError`` for anything else, and ``PortError`` for a
    dict with only an ``error``.
    """
    if isinstance(found, str):
        found = _decoded(found)
    if isinstance(found, Mapping):
        if set(found) == {"error"}:  # a tool's way to say that it failed
            raise PortError(f"the search failed: {found['error']}")
        found = next((found[key] for key in LIST_KEYS if key in found), found)
    items = [found] if isinstance(found, (str, Mapping, Passage, *kinds)) else found
    if not isinstance(items, Iterable):
        allowed = "passages, texts, or dicts with title, url and snippet"
        raise InputError.of("search results", given=found, allowed=allowed)
    return [convert(item) if isinstance(item, kinds) else _page(item) for item in items]


def _decoded(text: str) -> object:
    """Read JSON, as many search tools write it; other text is one result, blank text is none."""
    try:
        with contextlib.suppress(ValueError):
            decoded = json.loads(text)
            if isinstance(decoded, list | dict):
                return decoded
    except RecursionError:
        allowed = "JSON that is not nested so deeply"
        raise InputError.of("search results", given=text, allowed=allowed) from None
    return [text] if has_text(text) else []


def _page(item: object) -> Passage:
    if isinstance(item, Passage):
        return item
    if isinstance(item, str):
        return Passage(made_id(item), item)
    if not isinstance(item, Mapping):
        allowed = "a passage, a text, or a dict with title, url and snippet"
        raise InputError.of("search result", given=item, allowed=allowed)
    text, url = first_text(item, TEXT_KEYS), first_text(item, URL_KEYS)
    others = {str(key): value for key, value in item.items() if key not in TEXT_KEYS}
    return Passage(url or made_id(text), text, first_text(item, ("title",)), url, others)
