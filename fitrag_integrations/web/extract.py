"""Extract the paragraphs of a page with trafilatura, within limits that keep it fast.

Runs in a thread: at the limits below an ordinary page takes about half a second, and the
interpreter lock is never held for more than some tens of milliseconds. libxml2 stops at its own
depth limit, so nested elements cost neither time nor stack.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.text.cleaning import clean_paragraphs, clean_text
from fitrag_integrations.web.hidden import Element, hidden_elements

MAX_CHARS = 1_500_000
MAX_TAGS = 40_000
"""Text beyond either limit is ignored; the longest articles have about half as much."""
MAX_INLINE = 1_000
"""Maximum number of inline elements of a block; a block with more is read as plain words."""
TITLE_CHARS = 300
HEADER_CHARS = 1_000
HEAD_BYTES = 4_096
"""How much of a header, and of a page, is searched for the name of an encoding."""

# Others are no text encodings of the web, and some (punycode) take quadratic time.
_ENCODINGS = re.compile(
    r"utf-(8|16|32)(-[lb]e)?|ascii|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|shift_jis\w*|euc_\w+"
    r"|gb\w+|big5\w*|iso2022_\w+|tis-620|hz|johab"
)
_CHARSET = re.compile(r"[\w.:-]{1,40}")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCK_NAMES = (
    "html body head main article section div p h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table thead"
    " tbody tfoot tr td th blockquote pre figure figcaption details header footer nav aside form"
    " br hr"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_PASSWORD = "boolean(//input[translate(@type, 'PASWORD', 'pasword') = 'password'])"


@dataclass(frozen=True)
class Extracted:
    """Title and cleaned paragraphs of a page, and whether it has a password field."""

    title: str
    paragraphs: tuple[str, ...]
    asks_password: bool = False


def extract(body: bytes, content_type: str) -> Extracted:
    """Extract the main text of a page, without the elements that ``hidden`` finds.

    Args:
        body: The page as it was sent.
        content_type: The Content-Type header; plain text is split at blank lines.

    Returns:
        Title and paragraphs; no paragraphs where the page has no main text.
    """
    text = decode(body, content_type)[:MAX_CHARS].replace("\0", "")
    if content_type.partition(";")[0].strip().lower() == "text/plain":
        return Extracted("", tuple(clean_paragraphs(clean_text(text).split("\n\n"))))
    trafilatura = require_extra("trafilatura", extra="web", feature="PageReader")
    tree = trafilatura.load_html("<".join(text.split("<", MAX_TAGS)[:MAX_TAGS]))
    if tree is None:
        return Extracted("", ())
    tree = tree.getroottree().getroot()  # of what is hardly HTML, lxml gives an element inside
    title = clean_text(tree.findtext(".//title") or "", max_chars=TITLE_CHARS)
    asks_password = bool(tree.xpath(_PASSWORD))
    hidden = dict.fromkeys(hidden_elements(tree), "")
    for parent in dict.fromkeys(element.getparent() for element in hidden):
        _replace_children(parent, hidden)
    _flatten_crowds(tree)
    found = trafilatura.bare_extraction(tree, include_comments=False)
    lines = (found.text or "").splitlines() if found is not None else []
    texts = (line for line in lines if line.strip("|-: "))  # not the lines that only draw a table
    return Extracted(" ".join(title.split()), tuple(clean_paragraphs(texts)), asks_password)


def decode(body: bytes, content_type: str) -> str:
    """Decode bytes by their byte order mark, as UTF-8, or as the header or the page declares.

    UTF-8 comes before the declaration, because text that is valid UTF-8 by accident is rarer than
    a wrong declaration. If no encoding fits, unreadable bytes become U+FFFD.

    Args:
        body: The bytes of the page.
        content_type: The Content-Type header, which may name a charset.

    Returns:
        The text.
    """
    marked = [name for mark, name in _BOMS if body.startswith(mark)]
    metas = body[:HEAD_BYTES].decode("latin-1").lower().split("<meta")[1:]
    declared = [
        name
        for text in (content_type[:HEADER_CHARS], *(meta.partition(">")[0] for meta in metas))
        for name in _charsets(text)
    ]
    for name in (*marked, "utf-8", *map(_encoding, declared)):
        try:
            if name is not None:
                return body.decode(name)
        except UnicodeError:
            continue
    return body.decode(next(filter(None, map(_encoding, declared)), "utf-8"), "replace")


def _charsets(text: str) -> Iterator[str]:
    """Yield the names after each ``charset=``, in linear time."""
    for rest in text.lower().split("charset")[1:]:
        sign, _, value = rest.lstrip().partition("=")
        name = _CHARSET.match(value.strip().lstrip("\"' \t\n"))
        if name and not sign:
            yield name.group()


def _encoding(name: str) -> str | None:
    """Return Python's name of a text encoding; Latin-1 means Windows-1252, as in browsers."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    if found in ("iso8859-1", "ascii"):
        return "cp1252"
    return found if _ENCODINGS.fullmatch(found) else None


def _flatten_crowds(tree: Element) -> None:
    """Replace the inline elements of crowded blocks by text; trafilatura is quadratic in them."""
    block_of: dict[Element, Element] = {}
    inline: dict[Element, int] = {}
    for element in tree.iter("*"):
        parent = element.getparent()
        if parent is None or element.tag in _BLOCKS:
            block_of[element] = element
        else:
            block = block_of[element] = block_of[parent]
            inline[block] = inline.get(block, 0) + 1
    for block in (block for block, count in inline.items() if count > MAX_INLINE):
        crowd = [child for child in block.iterchildren("*") if block_of[child] is block]
        _replace_children(block, {child: child.text_content() for child in crowd})


def _replace_children(parent: Element, words_of: Mapping[Element, str]) -> None:
    """Replace children by words, joined once per gap, which keeps it linear."""
    kept: Element = None
    words = [parent.text or ""]
    for child in [*parent, None]:
        if child is not None and child in words_of:
            words += (words_of[child], child.tail or "")
            parent.remove(child)
            continue
        if len(words) > 1 and kept is None:
            parent.text = "".join(words)
        elif len(words) > 1:
            kept.tail = "".join(words)
        if child is not None:
            kept, words = child, [child.tail or ""]
