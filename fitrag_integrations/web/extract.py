"""Extract the paragraphs of a page with trafilatura, within limits that keep it fast.

Runs in a thread: at the limits below an ordinary page takes about half a second, and the
interpreter lock is never held for more than some tens of milliseconds. libxml2 stops at its own
depth limit, so nested elements cost neither time nor stack.

Elements that are not shown are left out: by element, attribute, class or style. Styles are read
from ``style`` attributes and from the page's own ``<style>``, for selectors of one class, one id,
one element, or an element with a class. Known utility classes ("sr-only", "d-none") hide as in
their frameworks. Not detected: linked style sheets, scripts, other selectors, text over a picture
or a box of its own color, and text covered by another element. The content of a closed
``<details>`` counts as shown, because a reader can open it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.text.cleaning import clean_paragraphs, clean_text

Element: TypeAlias = Any  # of lxml, which has no types

MAX_CHARS = 1_500_000
MAX_TAGS = 40_000
"""Text beyond either limit is ignored; the longest articles have about half as much."""
MAX_INLINE = 1_000
"""Maximum number of inline elements of a block; a block with more is read as plain words."""
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
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "html body head main article section div p h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table thead"
        " tbody tfoot tr td th blockquote pre figure figcaption details header footer nav aside"
        " form br hr",
    )
)


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
    title = clean_text(tree.findtext(".//title") or "", max_chars=300)
    asks_password = bool(
        tree.xpath("boolean(//input[translate(@type, 'PASWORD', 'pasword') = 'password'])")
    )
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
    marked = ["utf-16"] if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else []
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


_NEVER_SHOWN = frozenset(
    ["template", "noscript", "datalist", "select", "iframe", "object", "canvas", "video", "audio"]
)
_CLASSES = frozenset(
    ("sr-only", "sr-only-focusable", "visually-hidden", "visuallyhidden", "screen-reader-text")
    + ("screen-reader-only", "element-invisible", "invisible", "hidden", "hide", "is-hidden")
    + ("u-hidden", "d-none", "offscreen", "off-screen")
)
# With one of these classes the element is shown from some window width on.
_SHOWN_AGAIN = re.compile(
    r"(?:sm|md|lg|xl|2xl|xxl):(?:block|flex|grid|table|contents|visible|inline[a-z-]*|not-sr-only)"
    r"|d-(?:sm|md|lg|xl|xxl)-(?:block|flex|grid|table|inline[a-z-]*)"
)
_ESCAPED = re.compile(r"\\(?:([0-9a-f]{1,6})[ \t\r\n\f]?|(.))", re.IGNORECASE | re.DOTALL)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_LENGTH = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?:e[+-]?\d{1,2})?)([a-z]{1,5}|%)?")
_PIXELS = {
    **{"": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0},
    **{"%": 10.0, "vw": 10.0, "vh": 8.0, "vmin": 8.0, "vmax": 10.0},
    **{"cm": 38.0, "mm": 3.8, "in": 96.0, "pc": 16.0, "q": 0.9},
}
"""Approximate pixels per unit; percents and window units assume a window of 1,000 by 800."""
FAR = 900.0  # offset in pixels from which an element counts as off screen
_SIZES = ((0.05, "Z"), (1.0, "O"), (2.0, "T"), (499.0, "S"))
"""Letters for lengths up to so many pixels; above them "H", and "F" for what is off screen."""
_ALONE = re.compile(
    r"display:none\Z|visibility:(?:hidden|collapse)\Z|content-visibility:hidden\Z"
    r"|(?:opacity|zoom|scale):[^A-Z]*Z|filter:opacity\([^A-Z]*Z"
    r"|font-size:[^A-Z]*[ZOT]|font:(?:.* )?[^A-Z /]*[ZOT]"
    r"|clip-path:(?:inset\([^A-Z]*[HF]|(?:circle|ellipse|polygon)\((?!.*[OTSHF]).*Z)"
    r"|clip:rect\((?!.*[TSHF]).*[ZO]"
    r"|transform:(?>.*?scale)[^(]*\([^A-Z]*Z"
    r"|(?:transform|translate|text-indent|margin(?:-left|-top|-right|-bottom)?):.*F"
)
"""Declarations that hide an element whatever its others are, lengths as letters."""
_AMONG = (
    (
        "position",
        {"absolute", "fixed", "relative", "sticky"},
        re.compile(r"(?:left|right|top|bottom|inset(?:-inline-start|-block-start)?):.*F"),
    ),
    (
        "overflow",
        {"hidden", "clip", "scroll"},
        re.compile(r"(?:(?:max-)?(?:width|height)|line-height):[^A-Z]*[ZO]"),
    ),
)
"""Those that hide it where another property has one of these values."""
_CLEAR = re.compile(
    r"transparent|#[0-9a-f]{3}0|#[0-9a-f]{6}00"
    r"|(?:rgb|hsl)a?\([^()]{1,40}[,/]\s{0,4}(?:0|0?\.0{1,4}|0%)\s{0,4}\)"
)
_SELECTOR = re.compile(r"([a-z][a-z0-9-]{0,40})?(?:([.#])([\w-]{1,80}))?", re.IGNORECASE)


def hidden_selectors(texts: Iterable[str]) -> set[tuple[str, str, str]]:
    """Return what style sheets hide, as element, sign and name; rules for print are ignored.

    The element is blank for a class (".") or an id ("#") alone, sign and name for an element alone.
    """
    hidden = set()
    for selectors, declarations in (rule for text in texts for rule in _rules(text)):
        for selector in selectors.split(",") if hides(declarations) else ():
            found = _SELECTOR.fullmatch(selector.strip())
            if found and found[0].lower() not in ("", "html", "body"):
                name = "" if found[2] == "#" else (found[1] or "").lower()
                hidden.add((name, found[2] or "", found[3] or ""))
    return hidden


def hidden_elements(tree: Element) -> Iterator[Element]:
    """Yield every element of the body that is not shown, in document order."""
    hidden = hidden_selectors("".join(style.itertext()) for style in tree.iter("style"))
    for element in tree.iter("*"):
        name, given = element.tag, element.attrib
        classes = frozenset(given.get("class", "").split())
        if name not in ("html", "head", "body", "title") and (
            name in _NEVER_SHOWN
            or "hidden" in given
            or (name == "dialog" and "open" not in given)
            or given.get("aria-hidden", "").strip().lower() == "true"
            or (not _CLASSES.isdisjoint(classes) and not any(map(_SHOWN_AGAIN.fullmatch, classes)))
            or not hidden.isdisjoint([(name, "", ""), ("", "#", given.get("id", "").strip())])
            or not hidden.isdisjoint((each, ".", word) for word in classes for each in ("", name))
            or hides(given.get("style", ""))
        ):
            yield element


def hides(declarations: str) -> bool:
    """Check whether CSS declarations, such as a ``style`` attribute, make the text invisible."""
    properties = _properties(declarations) if ":" in declarations else {}
    grounds = {*properties.get("background-color", ()), *properties.get("background", ())}
    among = (why for name, values, why in _AMONG if not values.isdisjoint(properties.get(name, ())))
    hiding = [_ALONE, *among]
    for name, value in ((name, value) for name, values in properties.items() for value in values):
        if name in ("color", "-webkit-text-fill-color"):
            if value in grounds or _CLEAR.fullmatch(value):
                return True
        elif any(why.match(f"{name}:{_LENGTH.sub(_letter, value)}") for why in hiding):
            return True
    return False


def _letter(length: re.Match[str]) -> str:
    """Return the letter of a length; a number of an unknown unit counts as pixels."""
    pixels = float(length[1]) * _PIXELS.get(length[2] or "", 1.0)
    if pixels <= -FAR or pixels >= 4 * FAR:
        return "F"
    return next((letter for most, letter in _SIZES if abs(pixels) <= most), "H")


def _properties(text: str) -> dict[str, list[str]]:
    """Return the values of each property, in lower case, without comments and escapes."""

    def unescaped(found: re.Match[str]) -> str:
        code = int(found[1], 16) if found[1] else 0
        return found[2] or (chr(code) if 0 < code < 0x110000 else " ")

    properties: dict[str, list[str]] = {}
    for declaration in _ESCAPED.sub(unescaped, _COMMENT.sub("", text)).lower().split(";"):
        name, _, value = declaration.partition(":")
        properties.setdefault(name.strip(), []).append(" ".join(value.partition("!")[0].split()))
    return properties


def _rules(text: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and declarations of each rule for screens of any width."""
    opened: list[str] = []
    pending = ""
    for part in [*re.split(r"([{}])", _COMMENT.sub("", text)), "}"]:  # an end closes a rule too
        if part == "{":
            opened.append(pending.rpartition(";")[2].strip())
        elif part == "}" and opened:
            head = opened.pop()
            if not head.startswith("@") and all(
                group.startswith(("@media", "@supports", "@layer"))
                and "print" not in group
                and "width" not in group
                for group in (group.lower() for group in opened)
            ):
                yield head, pending
        pending = "" if part in "{}" else part
