"""Search results: read from any provider or tool, and turned into passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from fitrag_integrations.core.checks import Checked, Text, trait
from fitrag_integrations.core.record import Record, check_mapping, plain
from fitrag_integrations.errors import SearchError
from fitrag_integrations.text.cleaning import clean_text
from fitrag_integrations.types import Passage
from fitrag_integrations.values.search_results import made_id, pages_of

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
    if trait(found, "is_error", bool) or trait(found, "status", str) == "error":
        raise SearchError(f"the search tool failed: {_content(found)}", kind="transient")
    if hasattr(found, "raw_output"):
        raw = found.raw_output
        return _unwrapped(_content(found) if raw is None else raw)
    if hasattr(found, "tool_call_id"):
        return _content(found)
    if (results := trait(found, "results", list)) is not None:
        return results
    return [found] if _is_result(found) else found


def _content(found: object) -> object:
    return getattr(found, "content", found)


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
