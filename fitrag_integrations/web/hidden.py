"""Find the elements of a page that are not shown: by element, attribute, class or style.

Styles are read from ``style`` attributes and from the page's own ``<style>``, for selectors of one
class, one id, one element, or an element with a class. Known utility classes ("sr-only",
"d-none") hide as in their frameworks. Not detected: linked style sheets, scripts, other selectors,
text over a picture or a box of its own color, and text covered by another element. The content of
a closed ``<details>`` counts as shown, because a reader can open it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Element: TypeAlias = Any  # of lxml, which has no types
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
_PIXELS = {"": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0}
_PIXELS |= {"%": 10.0, "vw": 10.0, "vh": 8.0, "vmin": 8.0, "vmax": 10.0, "cm": 38.0, "mm": 3.8}
_PIXELS |= {"in": 96.0, "pc": 16.0, "q": 0.9}
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
