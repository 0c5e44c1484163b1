"""Split JSON, JSON Lines, nested YAML, and tables of HTML or XML into records.

A record stays whole up to ``MAX_RECORD`` characters. A longer one is cut into its members, never
between a name and its value, and each is led by the keys above it; in a list, also by the first
plain member of its record, which mostly names that. Rows of HTML are led by their header row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from fitrag_integrations.text.blocks import CODE, PROSE
from fitrag_integrations.text.spans import Span, trimmed

MAX_RECORD = 400
"""Characters up to which an object stays whole; a list of objects is always cut into them."""
LEADS, LONG_LEAD = 4, 160  # spans of a lead, and the characters of one

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|"')
# Where a text that was torn inside a value goes on, and the quote that closes the value.
_INSIDE, _CLOSED = re.compile(r'[{,\[](?=\s*")'), re.compile(r'\s*"(?=\s*[,}\]])')
_PLAIN = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_YAML = re.compile(
    r"(?P<indent>[ ]*)(?P<items>(?:-[ ]+|-(?=\n|\Z))*)"
    r"(?P<key>(?:\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[\w$./@<~*&-][^:\n\"'#{}]{0,60}):(?=\s|\Z))?"
    r"(?P<value>[^\n]*)\n?"
)
_ITEM = re.compile(r"-\s*")
_PROSE = re.compile(r"\w[.!?]\s*\Z")
_COMMENT = re.compile(r"\s*(?:#.*|---|\.\.\.)?\s*")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,40})[^<>]{0,500}?(/?)>")
_TABLE = frozenset(("table", "caption", "colgroup", "thead", "tbody", "tfoot"))
_INLINE = frozenset(
    re.findall(r"\w+", "a abbr b br code em font hr i img input p small span strong sub sup u wbr")
)


class Part(NamedTuple):
    """Part of a text of records: its span, and the keys and names that it stands under."""

    start: int
    end: int
    kind: int  # CODE where it stays whole, PROSE for a long text
    body: int  # where its value begins
    lead: tuple[Span, ...]  # of what is further down in it: its own key too


@dataclass(slots=True)
class _Node:
    """Value with its name: it starts at its key, or at its value where it has none."""

    start: int
    key: int  # the end of the key; its start where there is none
    end: int
    tag: str = ""
    column: int = -1
    below: list[_Node] = field(default_factory=list)

    @property
    def many(self) -> bool:
        """Whether this is a list of records, and not itself one."""
        tags = {one.tag for one in self.below}
        alike = len(tags) == 1 or not tags.isdisjoint(_TABLE)
        return all(one.below for one in self.below) and alike and self.tag != "tr"


@lru_cache(maxsize=256)
def records_of(text: str, longest: int = MAX_RECORD) -> tuple[Part, ...]:
    """Return the parts of a text of records, in order; empty for any other text.

    Args:
        text: JSON, JSON Lines, nested YAML, or elements, whole or cut out of such a text.
        longest: Maximum characters of a whole record; 0 splits all records into their members.
    """
    tree = _json(text) or _elements(text) or _yaml(text)
    cuts = [] if tree is None else list(_cut(tree, longest))
    parts = []
    for n, (at, body, lead) in enumerate(cuts):
        end = cuts[n + 1][0] if n + 1 < len(cuts) else len(text)
        start, end = trimmed(text, at if n else 0, end)
        kind = CODE if end - start <= MAX_RECORD else PROSE
        parts.append(Part(start, end, kind, max(body, start), lead[-LEADS:]))
    return tuple(parts)


def _cut(tree: _Node, longest: int) -> Iterator[tuple[int, int, tuple[Span, ...]]]:
    """Yield where each part starts, where its value does, and its lead."""
    waiting: list[tuple[int, _Node, tuple[Span, ...], bool]] = [(0, tree, (), False)]
    while waiting:
        start, node, lead, listed = waiting.pop()
        lead = lead[-LEADS:]
        if 0 < node.key - node.start <= LONG_LEAD:
            lead = (*lead, (node.start, node.key))
        whole = node is not tree and not node.many and node.end - node.start <= longest
        if not node.below or whole:
            yield start, node.key, lead
            continue
        plain = (one for one in node.below if not one.below and (one.tag or one.key > one.start))
        heads = (
            one
            for one in node.below
            if one.tag == "thead" or (one.tag == "tr" and one.below and one.below[-1].tag == "th")
        )
        first = next(plain if listed else heads, tree)
        named = first.end - first.start <= LONG_LEAD
        for at in reversed(range(len(node.below))):
            one = node.below[at]
            own = ((first.start, first.end),) if named and first.end <= one.start else ()
            alone = len(node.below) == 1 or one.key > one.start
            waiting.append((one.start if at else start, one, (*lead, *own), not alone))


def _json(text: str) -> _Node | None:
    """Read a text that is mostly strings, numbers and signs of JSON, with two names or more."""
    if text.count('":') + text.count('" :') < 2:
        return None
    path, start, key, names, other = [_Node(0, 0, len(text))], -1, 0, 0, 0
    tree, whole = path[0], text.lstrip()[:1] in ("{", "[", '"', "}", "]", ",")
    torn = None if whole else _INSIDE.search(text, 0, 2 * MAX_RECORD)
    closed = _CLOSED.match(text)
    if torn and torn[0] == ",":
        tree.below.append(_Node(0, 0, torn.start()))
    elif torn:  # what stands before is the end of the value's name
        start, key = 0, torn.start()
    elif not whole:
        return None
    for token in _TOKEN.finditer(text, torn.start() if torn else closed.end() if closed else 0):
        sign, below = token[0], path[-1].below
        if sign == ":" and below and not below[-1].below:
            names += 1
            start, key = below.pop().start, token.end()
            continue
        if sign in "}]" and len(path) > 1:
            path.pop().end = token.end()
        elif sign in "}]" and below:  # its beginning was cut off
            first = below[0].start
            tree.below = [_Node(first, first, token.end(), below=below)]
        elif sign not in "}],:":
            begin = token.start() if start < 0 else start
            below.append(_Node(begin, begin if start < 0 else key, token.end()))
            if sign in "{[":
                below[-1].end = len(text)
                path.append(below[-1])
            elif sign[0] != '"' and not _PLAIN.fullmatch(sign):
                other += len(sign)
        start = -1
    return tree if names > 1 and other <= len(text) / 20 else None


def _elements(text: str) -> _Node | None:
    """Read a text of elements, a third of it tags."""
    if not _TAG.search(text, 0, MAX_RECORD):
        return None
    path, signs = [_Node(0, 0, len(text))], 0
    tree, nodes = path[0], path[:]
    for tag in _TAG.finditer(text):
        signs += len(tag[0])
        name = tag[2].lower()
        if name in _INLINE:
            continue
        if not tag[1]:
            made = _Node(tag.start(), tag.start(), tag.end() if tag[3] else len(text), name)
            path[-1].below.append(made)
            nodes.append(made)
            if not tag[3]:
                path.append(made)
        elif any(one.tag == name for one in path[-4:]):
            while path[-1].tag != name:
                path.pop().end = tag.start()
            path.pop().end = tag.end()
    repeated = any(len(one.below) > 1 and one.many for one in nodes)
    return tree if repeated and signs > len(text) / 3 else None


def _yaml(text: str) -> _Node | None:
    """Read a text of keys and items, one a line, of which some keys stand below others.

    Of one that is prose, lines run on or end in a stop.
    """
    path, lines, other, nested, last = [_Node(0, 0, len(text))], 0, 0, False, 0
    tree = path[0]
    for line in _YAML.finditer(text):
        if _COMMENT.fullmatch(line[0]):
            continue
        lines += 1
        at, column, opened = line.start("items"), 2 * len(line["indent"]), []
        for mark in _ITEM.finditer(line["items"]):
            opened.append((at + mark.start(), at + mark.start(), column + 1))
            column += 2 * len(mark[0])
        if line["key"]:
            opened.append((line.start("key"), line.end("key"), column))
        other += not opened or _PROSE.search(line["value"]) is not None
        for start, key, indent in opened:
            while path[-1].column >= indent:
                path.pop().end = last
            nested |= key > start and len(path) > 1 and not line["items"]
            path[-1].below.append(_Node(start, key, len(text), "", indent))
            path.append(path[-1].below[-1])
        last = line.start() + len(line[0].rstrip())
    return tree if nested and lines > 2 and other <= lines / 4 else None
