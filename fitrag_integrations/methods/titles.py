"""Read a text's title from its metadata: document, headings, file and page.

Two chunks with the text "It costs 249 euros." differ only in their sources, which splitters and
loaders write into the metadata. The title has these values, from the whole to the part. A path or
an address contributes its last two names, without the extension. A value without letters follows
its key ("page 12"). Repeated values and generated ids are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from fitrag_integrations.core.record import remade
from fitrag_integrations.values.passage import Passage

NAMES = ("product", "document_title", "title")
PLACES = ("file_path", "filename", "file_name", "source", "url")
HEADINGS = ("header_path", *(f"Header {level}" for level in range(1, 7)), "section_title")
TITLE_KEYS = (*NAMES, *PLACES, *HEADINGS, "section", "page_label", "page_number")
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
    """Return a passage with the title from these metadata keys; None keeps its own."""
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
