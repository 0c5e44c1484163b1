"""A retrieved text, as its source returned it, and the results of the usual search services."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

from fitrag_integrations.core.checks import check_is, check_text
from fitrag_integrations.core.record import Record, check_mapping, remade
from fitrag_integrations.core.show import Html, block, card, escaped, lines_html, shortened
from fitrag_integrations.errors import InputError, PortError, raise_if
from fitrag_integrations.text.cleaning import has_text


@dataclass(frozen=True, slots=True)
class Passage(Record):
    """One retrieved text as its source returned it; the text is never changed.

    Args:
        id: Identifier of the passage.
        text: The text.
        title: Title; may be blank.
        source: Source, such as a file or address; may be blank.
        metadata: Copied, and read-only by convention. It is compared but not hashed, so its values
            need not be hashable.

    Example:
        >>> Passage("1", "The Rhine rises in the Alps.", "Rhine").title
        'Rhine'
    """

    id: str
    text: str
    title: str = ""
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not (type(self.id) is type(self.text) is type(self.title) is type(self.source) is str):
            for name in ("id", "text", "title", "source"):
                check_text(f"Passage.{name}", getattr(self, name))
        object.__setattr__(self, "metadata", check_mapping("Passage.metadata", self.metadata))

    @property
    def origin(self) -> tuple[Hashable, int] | None:
        """The text that this passage is a slice of, and its start there; None if unknown.

        It shows which chunks of one text overlap. LangChain's splitters record `start_index` beside
        `source` (and `page`), pieces of this package record `source_id` and `source_start`.
        """
        start, page = self.metadata.get("start_index"), self.metadata.get("page")
        if self.source and type(start) is int and isinstance(page, int | str | None):
            return (self.source, page), start
        name, at = origin_of(self)
        return ((name,), at) if (name, at) != (self.id, 0) else None

    def __str__(self) -> str:
        """Return title and first words in one line."""
        return f"{named(self)}: {shortened(self.text)}"

    def _repr_html_(self) -> Html:
        """Show the text under its title; all of it is escaped."""
        source = lines_html([f"id {self.id}, source {self.source or 'none'}"])
        return card(named(self), source, block(escaped(self.text)))


def is_web(passage: Passage) -> bool:
    """Check whether a passage is from the open web, by its ``metadata["web"]``."""
    return passage.metadata.get("web") is True


def named(passage: Passage) -> str:
    """Return the title, the source or the id of a passage; one from the web is marked."""
    name = passage.title or passage.source or passage.id
    return f"web: {name}" if is_web(passage) else name


_GENERATED = re.compile(r"\d+|text-[0-9a-f]{16}|[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.I)


def titled(passage: Passage) -> Passage:
    """Return a passage with the name that a numbered line shows: title, else source, else id.

    Numbers and generated ids (a UUID, or a hash of the text) are not used as names; a web page
    keeps its label.
    """
    if passage.title or is_web(passage):
        return passage
    name = origin_of(passage, exact=False)[0]
    shown = passage.source or ("" if _GENERATED.fullmatch(name) else name)
    return remade(passage, title=shown) if shown else passage


PLACE = ("source_id", "source_start", "source_end")
"""The metadata of a piece: its source, and its [start, end) in the source's text."""


LEAD = "source_lead"
"""The metadata of a piece with a lead: its spans in the source, as ``"0-12 30-44"``."""


def origin_of(passage: Passage, *, exact: bool = True) -> tuple[str, int]:
    """Return the id of the text a passage was cut from, and the passage's start in it.

    A piece made by this package has both in its metadata. If that place does not span exactly the
    passage's text, there is a lead before it or the text has changed since, and the passage counts
    as its own origin.

    Args:
        passage: Passage.
        exact: Whether the place must span the text; else it says where the piece was cut.
    """
    if PLACE[0] not in (metadata := passage.metadata):
        return passage.id, 0
    name, start, end = (metadata.get(f"fitrag_{key}", metadata.get(key)) for key in PLACE)
    if not (isinstance(name, str) and isinstance(start, int) and isinstance(end, int)):
        return passage.id, 0
    return (name, start) if end - start == len(passage.text) or not exact else (passage.id, 0)


def derived_id(*parts: object) -> str:
    """Return an id, a UUID because some vector stores take no other; equal for equal parts."""
    name = "\0".join(map(str, parts))
    return str(UUID(bytes=sha256(name.encode("utf-8", "surrogatepass")).digest()[:16]))


def made_id(text: str) -> str:
    """Return an id for a text that has none."""
    return f"text-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def first_text(values: Mapping[str, object], keys: Iterable[str]) -> str:
    """Return the first value under these keys that is a text and not empty."""
    for key in keys:
        value = values.get(key)
        if value and isinstance(value, str):
            return value
    return ""


URL_KEYS = ("url", "link", "href", "source")
TEXT_KEYS = ("snippet", "content", "text", "body", "page_content")
LIST_KEYS = ("results", "organic", "organic_results", "items")


def pages_of(
    found: Any, kinds: tuple[type, ...], convert: Callable[[Any], Passage]
) -> list[Passage]:
    """Read the results of a search for one query.

    Args:
        found: Passages, texts, or ``{title, url, snippet}`` dicts under the field names of the
            usual providers: one or several, also under a key such as ``"results"``, or as JSON.
        kinds: Classes of the framework's documents.
        convert: Function from a framework's document to a passage.

    Raises:
        InputError: For anything else.
        PortError: For a dict with only an ``error``.
    """
    if isinstance(found, str):
        found = _decoded(found)
    if isinstance(found, Mapping):
        # a tool's way to say that it failed
        raise_if(set(found) == {"error"}, PortError, f"the search failed: {found.get('error')}")
        found = next((found[key] for key in LIST_KEYS if key in found), found)
    allowed = "passages, texts, or dicts with title, url and snippet"
    items = [found] if isinstance(found, (str, Mapping, Passage, *kinds)) else found
    return [
        convert(item) if isinstance(item, kinds) else _page(item)
        for item in check_is("search results", items, cast(Any, Iterable), allowed)
    ]


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
    allowed = "a passage, a text, or a dict with title, url and snippet"
    row: Mapping[Any, Any] = check_is("search result", item, cast(Any, Mapping), allowed)
    text, url = first_text(row, TEXT_KEYS), first_text(row, URL_KEYS)
    others = {str(key): value for key, value in row.items() if key not in TEXT_KEYS}
    return Passage(url or made_id(text), text, first_text(row, ("title",)), url, others)
