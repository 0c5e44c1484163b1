"""Make paragraphs of a page's bytes with trafilatura, within limits that keep it quick.

Meant for a thread: at the limits below an ordinary page takes about half a second and the
interpreter is never held for more than some tens of milliseconds at a time. libxml2 stops at its
own depth limit, so that nesting costs neither time nor stack.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Any

from fitrag_integrations._cleaning import clean_paragraphs, clean_text
from fitrag_integrations._extras import require_extra

MAX_CHARS = 1_500_000
MAX_TAGS = 40_000
"""What is beyond either is not looked at; the longest articles have about half as much."""
TITLE_CHARS = 300

# Others are no text encodings of the web, and some (punycode) take quadratic time.
_ENCODINGS = re.compile(
    r"utf-(8|16|32)(-[lb]e)?|ascii|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|shift_jis\w*|euc_\w+"
    r"|gb\w+|big5\w*|iso2022_\w+|tis-620|hz|johab"
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_STYLE = "translate(@style, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ \t\n', 'abcdefghijklmnopqrstuvwxyz')"
_STYLES = ("display:none", "visibility:hidden", "opacity:0;", "font-size:0;", "font-size:0px")
_HIDDEN = "//body//*[@hidden or @aria-hidden='true' or self::template or {}]".format(
    " or ".join(f"contains(concat({_STYLE}, ';'), '{style}')" for style in _STYLES)
)
_PASSWORD = "boolean(//input[translate(@type, 'PASWORD', 'pasword') = 'password'])"


@dataclass(frozen=True)
class Extracted:
    """Hold a page's title and paragraphs, cleaned, and whether it asks for a password."""

    title: str
    paragraphs: tuple[str, ...]
    asks_password: bool = False


def extract(body: bytes, content_type: str) -> Extracted:
    """Take the main text out of a page; without one there are no paragraphs.

    What the page hides by attribute or inline style is dropped first; white on white is not seen.
    """
    text = decode(body, content_type)[:MAX_CHARS].replace("\0", "")
    if content_type.partition(";")[0].strip().lower() == "text/plain":
        return Extracted("", tuple(clean_paragraphs(clean_text(text).split("\n\n"))))
    trafilatura = require_extra("trafilatura", extra="web", feature="PageReader")
    tree = trafilatura.load_html(_first_tags(text))
    if tree is None:
        return Extracted("", ())
    title = clean_text(tree.findtext(".//title") or "", max_chars=TITLE_CHARS)
    asks_password = bool(tree.xpath(_PASSWORD))
    _drop_hidden(tree)
    found = trafilatura.bare_extraction(tree, include_comments=False)
    lines = _lines(found.text or "") if found is not None else []
    return Extracted(" ".join(title.split()), tuple(clean_paragraphs(lines)), asks_password)


def decode(body: bytes, content_type: str) -> str:
    """Read bytes as text: by their mark, as UTF-8 if they are, then as header or page declare.

    UTF-8 comes before what is declared, because text that is valid UTF-8 by accident is rarer
    than a wrong declaration. Where nothing fits, what cannot be read becomes U+FFFD.
    """
    marked = [name for mark, name in _BOMS if body.startswith(mark)]
    declared = _CHARSET.findall(content_type)
    declared += [name.decode("ascii") for name in _META.findall(body[:4096])]
    for name in (*marked, "utf-8", *map(_encoding, declared)):
        try:
            if name is not None:
                return body.decode(name)
        except UnicodeError:
            continue
    return body.decode(next(filter(None, map(_encoding, declared)), "utf-8"), "replace")


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
    for element in tree.xpath(_HIDDEN):
        if element.getparent() is not None:
            element.drop_tree()


def _lines(text: str) -> list[str]:
    """Cut into lines, without those that only draw a table."""
    return [line for line in text.splitlines() if line.strip("|-: ")]
