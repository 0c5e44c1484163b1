"""Metadata of documents: the title that is read from it, and the fields that components add.

Two chunks with the text "It costs 249 euros." differ only in their sources, which splitters and
loaders write into the metadata. The title has these values, from the whole to the part. A path or
an address contributes its last two names, without the extension. A value without letters follows
its key ("page 12"). Repeated values and generated ids are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from fitrag_integrations.core.record import plain, remade
from fitrag_integrations.flow import Flow
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.passage import LEAD, origin_of

PLACES = ("file_path", "filename", "file_name", "source", "url")
TITLE_KEYS = (
    *("product", "document_title", "title", *PLACES, "header_path"),
    *(f"Header {level}" for level in range(1, 7)),
    *("section_title", "section", "page_label", "page_number"),
)
"""The metadata keys that are read, in their order in the title."""
READ_AS = "fitrag_title"
"""The key under which a passage keeps the title that other keys than the default ones gave it."""
_PLACE = re.compile(r"(?i)(?:file|path|source|ur[il]|link|page)(?![a-z])|filename")
_GENERATED = re.compile(r"(?i)[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|[0-9a-f]{16,}")


class Title(str):
    """Title read from metadata; ``own`` is the part without files, addresses and pages.

    Copies of one text in several files have the same ``own``.
    """

    own: str

    def __new__(cls, text: str, own: str = "") -> Title:
        made = super().__new__(cls, text)
        made.own = own
        return made


def title_in(metadata: Mapping[str, object], keys: Iterable[str] | None = None) -> str:
    """Return the title in metadata, blank if none of the keys is present.

    Args:
        metadata: The metadata.
        keys: Keys to read, in this order; by default `TITLE_KEYS`, or for a web page its title.
    """
    if keys is None and READ_AS in metadata:
        return str(metadata[READ_AS])
    if keys is None:
        keys = ("title",) if metadata.get("web") is True else TITLE_KEYS
    parts, own, said = list[str](), list[str](), set[str]()
    for key in keys:
        part = _part(key, metadata[key]) if key in metadata else ""
        words = {*re.findall(r"\w+", part.casefold())}
        if part and not (words and words <= said):
            parts.append(part)
            own += [] if _PLACE.match(key) else [part]
            said |= words
    return Title(", ".join(parts), ", ".join(own))


def retitled(passage: Passage, keys: Iterable[str] | None) -> Passage:
    """Return a passage with the title from metadata keys.

    Args:
        passage: Passage.
        keys: Metadata keys; None keeps the passage's own title.
    """
    if keys is None:
        return passage
    title = title_in(passage.metadata, keys)
    return remade(passage, title=title, metadata={**passage.metadata, READ_AS: title})


def _part(key: str, value: object) -> str:
    """Return what a value adds to the title; one that is called so stands as it is."""
    if key == "title" and isinstance(value, str):
        return value
    value = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text, kind = " ".join(str(value).split()), key.casefold()
    if not any(map(str.isalnum, text)) or _GENERATED.fullmatch(text):
        return ""
    if kind.startswith("page") or not any(map(str.isalpha, text)):
        return f"{re.split('_label|_number', kind)[0].replace('_', ' ')} {text}"
    if kind.endswith("header_path"):
        return ", ".join(filter(None, map(str.strip, text.split("/"))))
    return _of_place(text) if _PLACE.match(key) else text


def _of_place(text: str) -> str:
    """Return the last two names of a path or an address as words."""
    scheme, _, rest = text.rpartition("://")
    rest = re.split("[?#]", rest)[0] if scheme else rest
    names = [unquote(name) for name in re.split(r"[/\\]+", rest) if name]
    if names and not (scheme and len(names) == 1):  # a host has no extension
        names[-1] = re.sub(r"(?<=.)\.[A-Za-z]\w{0,4}$", "", names[-1])
    names = [
        one if " " in one else re.sub(r"[-_]+", " ", one).strip()
        for one in names[-2:]
        if not _GENERATED.fullmatch(one)
    ]
    return ", ".join(filter(None, names))


MARKS = (
    "relevance_score",
    "raw_score",
    "has_answer",
    "llm_prefer",
    "retrieval_score",
    "answerable",
    "source_id",
    "source_start",
    "source_end",
    LEAD,
    "fitrag",
)
"""The metadata keys a drop-in writes: flat and plain, as every vector store takes them."""
OWN = "fitrag_own"
"""The key of a piece that lists those which its document had before."""


def summary(context: Context) -> dict[str, object]:
    """Return the decisions of a method as plain values, without empty fields."""
    fields = ("decision", "action", "answerable", "queries", "notes", "details")
    values = {name: plain(getattr(context, name)) for name in fields}
    often = ("thresholds", "web_error")  # so much asked for that they stand beside the action
    values |= {name: plain(context.details[name]) for name in often if name in context.details}
    return {"method": context.method, **{name: value for name, value in values.items() if value}}


def relevance_of(excerpt: Excerpt, method: str) -> float | None:
    """Return the relevance of an excerpt, in [0, 1]; None if it was not scored.

    Half of the weighted sum of the two labels, or a grade mapped from [-1, 1] to [0, 1]. Other
    ranking scores, such as reciprocal ranks, have no meaning for a single excerpt.

    Args:
        excerpt: Excerpt.
        method: Name of the method that scored it.
    """
    if excerpt.labels is not None:
        return excerpt.score
    return (excerpt.score + 1) / 2 if method in ("crag", "refine") else None


def own_marks(passage: Passage) -> list[str]:
    """Return the names of fields that an input document already had in its metadata."""
    metadata = passage.metadata
    if "fitrag" in metadata or origin_of(passage) != (passage.id, 0):  # a piece, marked before
        return str(metadata.get(OWN, "")).split()
    return [name for name in MARKS[1:-1] if name in metadata and name != "retrieval_score"]


def mark_name(passage: Passage, name: str) -> str:
    """Return the key of a field; another key if the document already has a value under it.

    Args:
        passage: Passage of the document.
        name: Name of the field.
    """
    return f"fitrag_{name}" if name in own_marks(passage) else name


def own_noted(context: Context) -> Context:
    """Add a note on the names that input documents already had."""
    own = {name for one in context.excerpts for name in own_marks(one.passage)}
    if not own:
        return context
    names, ours = ", ".join(sorted(own)), ", ".join(f"fitrag_{name}" for name in sorted(own))
    note = f"documents came with {names} of their own, which was kept: what was found is in {ours}"
    return replace(context, notes=(*context.notes, note))


def noted(call: Callable[..., Flow[Context]], *given: Any) -> Flow[Context]:
    """Return the flow of a call, whose context notes the names that input documents already had.

    A call that raises fails its own question alone.
    """
    return own_noted((yield from call(*given)))


def marks(excerpt: Excerpt, method: str, answerable: float | None = None) -> dict[str, object]:
    """Return the fields of an excerpt as flat plain values, without missing ones.

    A document's own value is never overwritten; ours is then under another name, `mark_name`.
    `source_start` and `source_end` count in the text of the source that `source_id` names; for a
    piece of a piece, it is the source of the first. `source_lead` are the spans shown before the
    piece, such as a table's header row.

    Args:
        excerpt: Excerpt.
        method: Name of the method; `raw_score` is the score that it ranked by.
        answerable: Score of the whole list, if there is one.
    """
    labels = excerpt.labels
    source_id, begin = origin_of(excerpt.passage)
    relevance = relevance_of(excerpt, method)
    values = {
        "relevance_score": relevance,
        "raw_score": excerpt.score if relevance is not None or excerpt.score else None,
        "has_answer": None if labels is None else labels.has_answer,
        "llm_prefer": None if labels is None else labels.llm_prefer,
        "answerable": answerable,
        "source_id": source_id,
        "source_start": begin + excerpt.start,
        "source_end": begin + excerpt.end,
        LEAD: " ".join(f"{begin + a}-{begin + b}" for a, b in excerpt.lead) or None,
        "fitrag": method,
    }
    own, shown = own_marks(excerpt.passage), dict[str, object]()
    for name, value in values.items():
        if value is not None:
            shown[f"fitrag_{name}" if name in own else name] = value
    if own:
        shown[OWN] = " ".join(own)
    return shown
