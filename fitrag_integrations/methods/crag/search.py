"""Search the web for a question in its own right: rewrite, search, and mark what comes (CRAG, 4.5).

Whatever a search port gives is from the web for us: it is marked as such and as untrusted, so that
every prompt shows it fenced. A failure is told and classified, and raised only on request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fitrag_integrations.core.checks import check_is, check_many, check_text
from fitrag_integrations.core.show import shortened
from fitrag_integrations.errors import SearchError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.crag.keywords import Rewritten, rewrite
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.cleaning import clean_text
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.windows import with_text

NO_PORT = "no search port was given: the web was not searched"


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of a web search, its query, and how it went."""

    passages: tuple[Passage, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)


def search_web(
    question: str, ports: Ports, *, rewriting: bool = True, on_error: str = "degrade"
) -> Flow[Searched]:
    """Search for a question, by keywords unless ``rewriting`` is off.

    With ``on_error="degrade"`` a failed search gives no passages, a note, and
    ``details["web_error"]`` with kind and message; the kind is that of a ``SearchError``, else the
    name of the exception. With ``"raise"`` it is raised. Without a search port nothing is asked.
    """
    if not ports.search:
        return Searched(notes=(NO_PORT,))
    asked = Rewritten(question, "question")
    if rewriting:
        asked = yield from rewrite(question, ports)
    searched = Searched((), (asked.query,), asked.notes, {"rewrite": asked.way})
    try:
        (found,) = yield from ports.search.ask([asked.query])
        pages = check_many("searched", found, Passage)
    except Exception as error:
        if on_error == "raise":
            raise
        return _failed(searched, error)
    return _found(searched, pages)


def as_web(passage: Passage) -> Passage:
    """Mark a passage as an untrusted one from the web and clean its text and title.

    What its metadata says already stays. A search may be any tool, so nobody may have cleaned it.
    """
    text, title = clean_text(passage.text), clean_text(passage.title)
    marks = {"url": passage.source, **passage.metadata, "web": True, "trust": "untrusted"}
    if isinstance(marks.get("title"), str):  # frameworks write it into prompts
        marks["title"] = clean_text(marks["title"])
    return replace(passage, text=text, title=title, metadata=marks)


def _found(searched: Searched, pages: tuple[Passage, ...]) -> Searched:
    readable = with_text([as_web(page) for page in pages])
    notes = list(searched.notes)
    dropped = max((_whole(page.metadata.get("left_out")) for page in pages), default=0)
    if blank := dropped + len(pages) - len(readable):
        notes.append(f"{blank} of {dropped + len(pages)} web results left out: no text")
    unread = Counter(_kind(page) for page in readable if "page_error" in page.metadata)
    if unread:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(unread.items()))
        notes.append(f"web pages not read ({kinds}): their snippets stand in")
    if not readable:
        notes.append(f"the web search for {shortened(searched.queries[0])!r} found nothing to read")
    counted = {"web_results": len(pages), "page_errors": dict(unread)}
    details = {**searched.details, **counted}
    return replace(searched, passages=tuple(readable), notes=tuple(notes), details=details)


def _kind(page: Passage) -> str:
    """Read how a page failed from what a web search says of it."""
    error = page.metadata["page_error"]
    return str(error.get("kind", "unknown")) if isinstance(error, Mapping) else "unknown"


def _whole(count: object) -> int:
    return count if isinstance(count, int) and count > 0 else 0


def _failed(searched: Searched, error: Exception) -> Searched:
    kind = error.kind if isinstance(error, SearchError) else type(error).__name__
    message = shortened(str(error))
    note = f"the web search failed ({kind}): {message}"
    details = {**searched.details, "web_error": {"kind": kind, "message": message}}
    return replace(searched, notes=(*searched.notes, note), details=details)


@dataclass(frozen=True)
class WebSearching:
    """Be a method that searches the web for a question and keeps all it gives, whole.

    With `rewrite` it asks for keywords, else for the question itself. A search that fails raises.
    """

    rewrite: bool = False

    def __post_init__(self) -> None:
        check_is("rewrite", self.rewrite, bool)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in what was found."""
        check_text("question", question, blank=False)
        found = yield from search_web(question, ports, rewriting=self.rewrite, on_error="raise")
        return Context(
            question,
            tuple(map(Excerpt.whole, found.passages)),
            queries=found.queries,
            notes=found.notes,
            method="web_search",
            details=found.details,
        )
