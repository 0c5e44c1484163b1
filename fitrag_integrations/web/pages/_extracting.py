"""Make paragraphs of a page's bytes with trafilatura, within limits that keep it quick.

Meant for a thread: at the limits below an ordinary page takes about half a second and the
interpreter is never held for more than some tens of milliseconds at a time. libxml2 stops at its
own depth limit, so that nesting costs neither time nor stack.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.text.cleaning import clean_paragraphs, clean_text
from fitrag_integrations.web.pages._hidden import hidden_elements

MAX_CHARS = 1_500_000
MAX_TAGS = 40_000
"""What is beyond either is not looked at; the longest articles have about half as much."""
MAX_INLINE = 1_000
"""How many inline elements a block may have before they are read as plain words."""
TITLE_CHARS = 300
HEADER_CHARS = 1_000
HEAD_BYTES = 4_096
"""How much of a header, and of a page, is looked at for the name of an encoding."""

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
    """Hold a page's title and paragraphs, cleaned, and whether it asks for a password."""

    title: str
    paragraphs: tuple[str, ...]
    asks_password: bool = False


def extract(body: bytes, content_type: str) -> Extracted:
    """Take the main text out of a page; without one there are no paragraphs.

    What the page hides is dropped first, as far as ``_hidden`` sees it.
    """
    text = decode(body, content_type)[:MAX_CHARS].replace("\0", "")
    if content_type.partition(";")[0].strip().lower() == "text/plain":
        return Extracted("", tuple(clean_paragraphs(clean_text(text).split("\n\n"))))
    trafilatura = require_extra("trafilatura", extra="web", feature="PageReader")
    tree = trafilatura.load_html(_first_tags(text))
    if tree is None:
        return Extracted("", ())
    tree = tree.getroottree().getroot()  # of what is hardly HTML, lxml gives an element inside
    title = clean_text(tree.findtext(".//title") or "", max_chars=TITLE_CHARS)
    asks_password = bool(tree.xpath(_PASSWORD))
    _drop_hidden(tree)
    _flatten_crowds(tree)
    found = trafilatura.bare_extraction(tree, include_comments=False)
    lines = _lines(found.text or "") if found is not None else []
    return Extracted(" ".join(title.split()), tuple(clean_paragraphs(lines)), asks_password)


def decode(body: bytes, content_type: str) -> str:
    """Read bytes as text: by their mark, as UTF-8 if they are, then as header or page declare.

    UTF-8 comes before what is declared, because text that is valid UTF-8 by accident is rarer
    than a wrong declaration. Where nothing fits, what cannot be read becomes U+FFFD.
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
    """Give what stands after each ``charset=``, in one pass whatever the text."""
    for rest in text.lower().split("charset")[1:]:
        sign, _, value = rest.lstrip().partition("=")
        name = _CHARSET.match(value.strip().lstrip("\"' \t\n"))
        if name and not sign:
            yield name.group()


def _encoding(name: str) -> str | None:
    """Give Python's name of a text encoding; Latin-1 is read as Windows-1252, as browsers do."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    if found in ("iso8859-1", "ascii"):
        return "cp1252"
    return found if _ENCODINGS.fullmatch(found) else None


def _first_tags(text: str) -> str:
    at = -1
    for _ in range(MAX_TAGS):
        at = text.find("<", at + 1)
        if at < 0:
            return text
    return text[:at]


def _drop_hidden(tree: Any) -> None:
    hidden = dict.fromkeys(hidden_elements(tree), "")
    for parent in dict.fromkeys(element.getparent() for element in hidden):
        _put_instead(parent, hidden)


def _flatten_crowds(tree: Any) -> None:
    """Make plain words of a block's many inline elements, which trafilatura joins quadratically."""
    block_of: dict[Any, Any] = {}
    inline: dict[Any, int] = {}
    for element in tree.iter("*"):
        parent = element.getparent()
        if parent is None or element.tag in _BLOCKS:
            block_of[element] = element
        else:
            block = block_of[element] = block_of[parent]
            inline[block] = inline.get(block, 0) + 1
    for block in (block for block, count in inline.items() if count > MAX_INLINE):
        crowd = [child for child in block.iterchildren("*") if block_of[child] is block]
        _put_instead(block, {child: child.text_content() for child in crowd})


def _put_instead(parent: Any, words_of: Mapping[Any, str]) -> None:
    """Put words in the place of children, joined once per gap and not child by child."""
    kept, words = None, [parent.text or ""]
    for child in list(parent):
        if child in words_of:
            words += (words_of[child], child.tail or "")
            parent.remove(child)
        else:
            _write(parent, kept, words)
            kept, words = child, [child.tail or ""]
    _write(parent, kept, words)


def _write(parent: Any, kept: Any, words: list[str]) -> None:
    """Put words behind the child kept last, or at the parent's beginning."""
    if len(words) == 1:
        return
    if kept is None:
        parent.text = "".join(words)
    else:
        kept.tail = "".join(words)


def _lines(text: str) -> list[str]:
    """Cut into lines, without those that only draw a table."""
    return [line for line in text.splitlines() if line.strip("|-: ")]
