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
from dataclasses import dataclass, field
from typing import Any

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
_NUMBER = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?:e[+-]?\d{1,2})?")
_UNIT = re.compile(r"[a-z]{1,5}|%")
_PIXELS = {"": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0}
_PIXELS |= {"%": 10.0, "vw": 10.0, "vh": 8.0, "vmin": 8.0, "vmax": 10.0, "cm": 38.0, "mm": 3.8}
_PIXELS |= {"in": 96.0, "pc": 16.0, "q": 0.9}
"""Approximate pixels per unit; percents and window units assume a window of 1,000 by 800."""
FAR = 900.0  # offset in pixels from which an element counts as off screen
TINY = 2.0  # font size in pixels up to which text counts as invisible
_PLACES = ("left", "right", "top", "bottom", "inset", "inset-inline-start", "inset-block-start")
_SHIFTS = ("text-indent", "margin", "margin-left", "margin-top", "margin-right", "margin-bottom")
_SIZES = ("width", "height", "max-width", "max-height", "line-height")
_CLEAR = re.compile(
    r"transparent|#[0-9a-f]{3}0|#[0-9a-f]{6}00"
    r"|(?:rgb|hsl)a?\([^()]{1,40}[,/]\s{0,4}(?:0|0?\.0{1,4}|0%)\s{0,4}\)"
)
_SELECTOR = re.compile(r"([a-z][a-z0-9-]{0,40})?(?:([.#])([\w-]{1,80}))?", re.IGNORECASE)


@dataclass(frozen=True)
class Sheet:
    """Selectors that the page's own style sheets hide: classes, ids, elements and pairs of both."""

    classes: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Sheet:
        """Parse style sheets; rules for print are ignored."""
        sheet = cls()
        for selectors, declarations in (rule for text in texts for rule in _rules(text)):
            if hides(declarations):
                for selector in selectors.split(","):
                    sheet._add(selector.strip())
        return sheet

    def _add(self, selector: str) -> None:
        found = _SELECTOR.fullmatch(selector)
        if not found or not selector:
            return
        name, sign, word = (found[1] or "").lower(), found[2], found[3]
        if sign == "#":
            self.ids.add(word)
        elif sign and name:
            self.pairs.add((name, word))
        elif sign:
            self.classes.add(word)
        elif name not in ("html", "body"):
            self.names.add(name)

    def hides(self, name: str, identity: str, classes: frozenset[str]) -> bool:
        """Check whether an element of this name, id and classes is hidden."""
        return (
            name in self.names
            or identity in self.ids
            or not self.classes.isdisjoint(classes)
            or any((name, each) in self.pairs for each in classes)
        )


def hidden_elements(tree: Any) -> Iterator[Any]:
    """Yield every element of the body that is not shown, in document order."""
    sheet = Sheet.of("".join(style.itertext()) for style in tree.iter("style"))
    for element in tree.iter("*"):
        if element.tag not in ("html", "head", "body", "title") and _is_hidden(element, sheet):
            yield element


def _is_hidden(element: Any, sheet: Sheet) -> bool:
    name, given = element.tag, element.attrib
    if name in _NEVER_SHOWN or "hidden" in given:
        return True
    if name == "dialog" and "open" not in given:
        return True
    if given.get("aria-hidden", "").strip().lower() == "true":
        return True
    classes = frozenset(given.get("class", "").split())
    if not _CLASSES.isdisjoint(classes) and not any(map(_SHOWN_AGAIN.fullmatch, classes)):
        return True
    return sheet.hides(name, given.get("id", "").strip(), classes) or hides(given.get("style", ""))


def hides(declarations: str) -> bool:
    """Check whether CSS declarations, such as a ``style`` attribute, make the text invisible."""
    if ":" not in declarations:
        return False
    properties = _properties(declarations)
    return any(
        _hides_alone(name, value) or _hides_among(name, value, properties)
        for name, values in properties.items()
        for value in values
    )


def _hides_alone(name: str, value: str) -> bool:
    match name:
        case "display":
            return value == "none"
        case "visibility":
            return value in ("hidden", "collapse")
        case "content-visibility":
            return value == "hidden"
        case "opacity" | "zoom":
            return _is_small(value, 0.05)
        case "filter":
            return value.startswith("opacity(") and _is_small(value[8:], 0.05)
        case "font-size":
            return _is_small(value, TINY)
        case "font":
            return any(_is_small(part.partition("/")[0], TINY) for part in value.split())
        case "color" | "-webkit-text-fill-color":
            return _CLEAR.fullmatch(value) is not None
        case "clip-path":
            return _clips(value)
        case "clip":
            return value.startswith("rect(") and max(map(abs, _lengths(value)), default=9.0) <= 1.0
        case "transform" | "scale":
            factor = value if name == "scale" else value.partition("scale")[2].partition("(")[2]
            shrinks = bool(factor) and _is_small(factor, 0.05)
            return shrinks or (name == "transform" and _is_far(value))
        case "translate":
            return _is_far(value)
    return name in _SHIFTS and _is_far(value)


def _hides_among(name: str, value: str, properties: dict[str, list[str]]) -> bool:
    """Check whether a declaration hides in combination with the others of its element."""
    if name in _PLACES:
        placed = {"absolute", "fixed", "relative", "sticky"}
        return not placed.isdisjoint(properties.get("position", ())) and _is_far(value)
    if name in _SIZES:
        cut = {"hidden", "clip", "scroll"}
        return not cut.isdisjoint(properties.get("overflow", ())) and _is_small(value, 1.0)
    grounds = ("background-color", "background")
    return name == "color" and any(value in properties.get(ground, ()) for ground in grounds)


def _properties(text: str) -> dict[str, list[str]]:
    """Return the values of each property, in lower case, without comments and escapes."""

    def unescaped(found: re.Match[str]) -> str:
        code = int(found[1], 16) if found[1] else 0
        return found[2] or (chr(code) if 0 < code < 0x110000 else " ")

    properties: dict[str, list[str]] = {}
    for declaration in _ESCAPED.sub(unescaped, _without_comments(text)).lower().split(";"):
        name, _, value = declaration.partition(":")
        properties.setdefault(name.strip(), []).append(" ".join(value.partition("!")[0].split()))
    return properties


def _without_comments(text: str) -> str:
    first, *rest = text.split("/*")
    return "".join([first, *(part.partition("*/")[2] for part in rest)])


def _rules(text: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and declarations of each rule for screens of any width."""
    opened: list[str] = []
    pending = ""
    for part in [*re.split(r"([{}])", _without_comments(text)), "}"]:  # an end closes a rule too
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


def _lengths(value: str) -> list[float]:
    """Return the numbers of a value in pixels; a number of an unknown unit counts as pixels."""
    found = []
    for number in _NUMBER.finditer(value):
        unit = _UNIT.match(value, number.end())
        found.append(float(number[0]) * _PIXELS.get(unit[0] if unit else "", 1.0))
    return found


def _is_small(value: str, most: float) -> bool:
    lengths = _lengths(value)
    return bool(lengths) and abs(lengths[0]) <= most


def _is_far(value: str) -> bool:
    return any(length <= -FAR or length >= 4 * FAR for length in _lengths(value))


def _clips(value: str) -> bool:
    shape, _, inside = value.partition("(")
    numbers = [float(found[0]) for found in _NUMBER.finditer(inside)]
    if shape.strip() == "inset":
        return bool(numbers) and numbers[0] >= 50.0 and "%" in inside
    return shape.strip() in ("circle", "ellipse", "polygon") and bool(numbers) and not any(numbers)
