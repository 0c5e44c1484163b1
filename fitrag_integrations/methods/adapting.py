"""What every adapter needs and no framework decides: ids, checks, summaries, search results."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from fitrag_integrations._plain import plain
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.prompts import template_named
from fitrag_integrations.methods.tokens import tiktoken_counter
from fitrag_integrations.ports import Method, TokenCounter
from fitrag_integrations.types import Context, Passage, Template

URL_KEYS = ("url", "link", "href", "source")
TEXT_KEYS = ("snippet", "content", "text", "body", "page_content")
SUMMED = ("decision", "action", "queries", "notes", "details")


class Named:
    """Show an object in a ``repr`` as its name, or as that of its class."""

    def __init__(self, value: object) -> None:
        self.name = name_of(value)

    def __repr__(self) -> str:
        return self.name


def name_of(value: object) -> str:
    """Give a text itself, the name of a function, or of an object's class."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", type(value).__name__))


def made_id(text: str) -> str:
    """Make the id of a text that came without one."""
    return f"text-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def counter_of(count_tokens: TokenCounter | str | None) -> TokenCounter | None:
    """Find the counter that the name of a tiktoken encoding stands for."""
    return tiktoken_counter(count_tokens) if isinstance(count_tokens, str) else count_tokens


def check_method(method: Any) -> Method:
    """Require a method: an object, not its class."""
    if isinstance(method, type) or not callable(method):
        raise InputError.of("method", given=method, allowed="a method, such as FitRag()")
    return cast(Method, method)


def template_of(template: Any) -> Template | None:
    """Accept a template or the name of one; None is the context's own choice."""
    if isinstance(template, str):
        return template_named(template)
    if template is not None and not callable(getattr(template, "render", None)):
        allowed = "an object with a 'render' method, or a template's name"
        raise InputError.of("template", given=template, allowed=allowed)
    return cast("Template | None", template)


def summary(context: Context) -> dict[str, Any]:
    """Say in plain values what a method decided; what is empty is left out."""
    told = {name: plain(getattr(context, name)) for name in SUMMED}
    return {"method": context.method, **{name: value for name, value in told.items() if value}}


def first_text(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Give the first value under these keys that is a text and not empty."""
    found = (values.get(key) for key in keys)
    return next((value for value in found if isinstance(value, str) and value), "")


def pages_of(
    found: Any, kinds: tuple[type, ...], convert: Callable[[Any], Passage]
) -> list[Passage]:
    """Read what a search gave for one query.

    Passages, texts or ``{title, url, snippet}`` dicts, under the names the usual providers give
    these; one or several, also under ``"results"``, or JSON of any of it. ``convert`` reads the
    framework's own ``kinds``. Raises ``InputError`` for anything else.
    """
    if isinstance(found, str):
        found = _decoded(found)
    if isinstance(found, Mapping) and "results" in found:
        found = found["results"]
    items = [found] if isinstance(found, (str, Mapping, Passage, *kinds)) else found
    if not isinstance(items, Iterable):
        allowed = "passages, texts, or dicts with title, url and snippet"
        raise InputError.of("search results", given=found, allowed=allowed)
    return [convert(item) if isinstance(item, kinds) else _page(item) for item in items]


def _decoded(text: str) -> Any:
    """Read JSON, as many search tools write it; other text is one result, blank text is none."""
    with contextlib.suppress(ValueError):
        decoded = json.loads(text)
        if isinstance(decoded, list | dict):
            return decoded
    return [text] if text.strip() else []


def _page(item: Any) -> Passage:
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
