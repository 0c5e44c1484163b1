"""Extract the paragraphs of a page with trafilatura, within limits that keep it fast.

Runs in a thread: at the limits below an ordinary page takes about half a second, and the
interpreter lock is never held for more than some tens of milliseconds. libxml2 stops at its own
depth limit, so nested elements cost neither time nor stack.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
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
_CHARSET = re.compile(r"charset\s*=[\s\"']*([\w.:-]{1,40})", re.ASCII)
_META = re.compile(r"<meta[^>]*")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
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
    etree = require_extra("lxml.etree", extra="web", feature="PageReader")
    trafilatura = require_extra("trafilatura", extra="web", feature="PageReader")
    tree = trafilatura.load_html("<".join(text.split("<", MAX_TAGS)[:MAX_TAGS]))
    if tree is None:
        return Extracted("", ())
    tree = tree.getroottree().getroot()  # of what is hardly HTML, lxml gives an element inside
    title = clean_text(tree.findtext(".//title") or "", max_chars=TITLE_CHARS)
    asks_password = bool(tree.xpath(_PASSWORD))
    for element in list(hidden_elements(tree)):
        element.tag = "HIDDEN"  # no element of a parsed page has a name in capitals
    etree.strip_elements(tree, "HIDDEN", with_tail=False)
    _flatten_crowds(tree)
    etree.strip_tags(tree, "CROWD")
    for element in tree.iter("*"):  # join the pieces of text, which cost time on every reading
        element.text, element.tail = element.text, element.tail
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
    head = body[:HEAD_BYTES].decode("latin-1").lower()
    texts = (content_type[:HEADER_CHARS].lower(), *_META.findall(head))
    named = [name for text in texts for name in _CHARSET.findall(text)]
    declared = list(filter(None, map(_encoding, named)))
    marked = ["utf-16"] if body.startswith(_UTF_16) else []
    strict = [(name, "strict") for name in (*marked, "utf-8-sig", *declared)]
    for name, errors in (*strict, *((name, "replace") for name in declared)):
        with suppress(UnicodeError):
            return body.decode(name, errors)
    return body.decode("utf-8-sig", "replace")


def _encoding(name: str) -> str | None:
    """Return Python's name of a text encoding; Latin-1 means Windows-1252, as in browsers."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    known = found if _ENCODINGS.fullmatch(found) else None
    return "cp1252" if found in ("iso8859-1", "ascii") else known


def _flatten_crowds(tree: Element) -> None:
    """Rename the inline elements of crowded blocks; trafilatura is quadratic in them."""
    block_of: dict[Element, Element] = {}
    inline: dict[Element, list[Element]] = {}
    for element in tree.iter("*"):
        parent = element.getparent()
        is_block = parent is None or element.tag in _BLOCKS
        block_of[element] = block = element if is_block else block_of[parent]
        inline.setdefault(block, []).extend([] if is_block else [element])
    for element in (each for crowd in inline.values() if len(crowd) > MAX_INLINE for each in crowd):
        element.tag = "CROWD"
