"""Find the elements of a page that are not shown: by element, attribute, class or style.

Styles are read from ``style`` attributes and from the page's own ``<style>``, for selectors of one
class, one id, one element, or an element with a class. Known utility classes ("sr-only",
"d-none") hide as in their frameworks. Not detected: linked style sheets, scripts, other selectors,
text over a picture or a box of its own color, and text covered by another element. The content of
a closed ``<details>`` counts as shown, because a reader can open it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
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
_NUMBER = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?:e[+-]?\d{1,2})?")
_LENGTH = re.compile(rf"({_NUMBER.pattern})([a-z]{{1,5}}|%)?")
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
    if ":" not in declarations:
        return False
    properties = _properties(declarations)
    return any(
        (name in _ALONE and _ALONE[name](value)) or _hides_among(name, value, properties)
        for name, values in properties.items()
        for value in values
    )


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
    return [float(number) * _PIXELS.get(unit, 1.0) for number, unit in _LENGTH.findall(value)]


def _is_small(value: str, most: float) -> bool:
    lengths = _lengths(value)
    return bool(lengths) and abs(lengths[0]) <= most


def _is_far(value: str) -> bool:
    return any(length <= -FAR or length >= 4 * FAR for length in _lengths(value))


def _clips(value: str) -> bool:
    shape, _, inside = value.partition("(")
    numbers = [float(found) for found in _NUMBER.findall(inside)]
    if shape.strip() == "inset":
        return bool(numbers) and numbers[0] >= 50.0 and "%" in inside
    return shape.strip() in ("circle", "ellipse", "polygon") and bool(numbers) and not any(numbers)


def _shrinks(value: str) -> bool:
    return _is_small(value, 0.05)


_ALONE: dict[str, Callable[[str], bool]] = {
    "display": lambda value: value == "none",
    "visibility": lambda value: value in ("hidden", "collapse"),
    "content-visibility": lambda value: value == "hidden",
    **dict.fromkeys(("opacity", "zoom", "scale"), _shrinks),
    "filter": lambda value: value.startswith("opacity(") and _shrinks(value[8:]),
    "font-size": lambda value: _is_small(value, TINY),
    "font": lambda value: any(_is_small(one.partition("/")[0], TINY) for one in value.split()),
    "color": lambda value: bool(_CLEAR.fullmatch(value)),
    "-webkit-text-fill-color": lambda value: bool(_CLEAR.fullmatch(value)),
    "clip-path": _clips,
    "clip": lambda value: (
        value.startswith("rect(") and max(map(abs, _lengths(value)), default=9.0) <= 1.0
    ),
    "transform": lambda value: (
        _shrinks(value.partition("scale")[2].partition("(")[2]) or _is_far(value)
    ),
    **dict.fromkeys(("translate", *_SHIFTS), _is_far),
}
"""Declarations that hide an element whatever its others are."""
