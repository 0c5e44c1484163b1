"""Find the parts of what a rewriter wrote, in whichever form it wrote them: tags, JSON or lines.

Each reading gives events in the order of the text: what a part is, and its body. Putting parts
together is done in `claims`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

Event: TypeAlias = tuple[str, str]  # claim, question, search, query, or "" for a part between

OPEN = "a closing mark was missing"
CUT = "the last item was cut off"
AS_JSON = "JSON was written in place of the grammar"
AS_LINES = "labelled lines were written in place of the grammar"

_KINDS = {
    **dict.fromkeys(("claim", "fact", "statement"), "claim"),
    **dict.fromkeys(("question", "subquestion"), "question"),
    **dict.fromkeys(("search", "needsearch", "needssearch", "searchneeded"), "search"),
    **dict.fromkeys(("query", "searchquery", "searchword", "searchwords", "searchterm"), "query"),
    **dict.fromkeys(("claims", "questions", "queries", "task", "timeliness", "known"), ""),
}
_MEMBERS = {"claims": "claim", "facts": "claim", "questions": "question"}
_NAME = r"([A-Za-z]{3,11}(?:[ _-]?[A-Za-z]{4,8})?)"
_TAG = re.compile(rf"<[ \t]{{0,3}}(/?)[ \t]{{0,3}}{_NAME}[ \t_]{{0,3}}\d{{0,3}}(?=[\s(>:=]|\Z)")
_LINE = re.compile(
    rf"(?m)^[ \t*#>•-]{{0,12}}(?:\d{{1,3}}[.)][ \t*]{{0,4}})?{_NAME}"
    r"[ \t]{0,3}\d{0,3}[*_]{0,2}[ \t]?[:=]"
)
_PAIR = re.compile(
    rf"[\"']{_NAME}\d{{0,3}}[\"']\s{{0,20}}:\s{{0,20}}"
    r"(?:\"((?:[^\"\\]|\\.)*)\"?|'((?:[^'\\\n]|\\.)*)'?|(true|false)\b)",
    re.IGNORECASE,
)


class Reading(NamedTuple):
    """Hold the form a text was read in, its events, and what had to be mended."""

    grammar: str
    events: list[Event]
    repairs: list[str]


def readings(body: str) -> Iterator[Reading]:
    """Read a text in each form it may have, the expected ones first."""
    if "<" in body:
        yield by_tags(body)
    if "{" in body or "[" in body:
        yield Reading("json", list(_by_json(body)), [AS_JSON])
    yield Reading("lines", list(_by_lines(body)), [AS_LINES])


def by_tags(body: str) -> Reading:
    """Cut at the tags of either grammar; what stands between one and the next is its body."""
    tags = [tag for tag in _TAG.finditer(body) if _name(tag[2]) in _KINDS]
    ends = [*(tag.start() for tag in tags), len(body)][1:]
    events, repairs, bracketed = [], [], False
    for tag, end in zip(tags, ends, strict=True):
        kind, inside = _KINDS[_name(tag[2])], body[tag.end() : end].strip()
        if kind and not tag[1]:
            bracketed = bracketed or inside.startswith("(")
            value, closed = _inner(inside)
            events.append((kind, value))
            if not closed:
                repairs.append(CUT if end == len(body) else OPEN)
        elif not kind:
            events.append(("", ""))
    return Reading("released" if bracketed else "paper", events, repairs)


def _inner(inside: str) -> tuple[str, bool]:
    """Take the marks off a tag's body, and say whether it was closed."""
    if inside.startswith(">"):
        return inside[1:].strip(), True
    if not inside.startswith("("):
        return inside.lstrip(":=").removesuffix(">").strip(), inside.endswith(">")
    depth, last = 0, -1
    for at, sign in enumerate(inside):
        depth += (sign == "(") - (sign == ")")
        if sign == ")" and inside[at + 1 : at + 4].lstrip().startswith(">"):
            last = at
            if depth <= 0:  # brackets within the text are in pairs
                break
    if last >= 0:
        return inside[1:last].strip(), True
    rest = inside[1:].removesuffix(">").rstrip()
    return (rest.removesuffix(")") if depth <= 0 else rest).strip(), False


def _by_json(body: str) -> Iterator[Event]:
    """Walk through the first value; where it is no JSON, read its pairs one by one."""
    start = min(at for at in (body.find("{"), body.find("[")) if at >= 0)
    try:
        value, _ = json.JSONDecoder().raw_decode(body, start)
        yield from list(_walked(value, ""))
    except (ValueError, RecursionError):
        for name, double, single, word in _PAIR.findall(body):
            if _name(name) in _KINDS:
                yield _KINDS[_name(name)], re.sub(r"\\(.)", r"\1", double or single or word)


def _walked(value: Any, member: str) -> Iterator[Event]:
    if isinstance(value, str | bool):
        yield member or "query", str(value)
    elif isinstance(value, list):
        for each in value:
            yield from _walked(each, member)
    elif isinstance(value, dict):
        named = [(_name(name), each) for name, each in value.items()]
        order = ("claim", "question", "search", "query")
        own = [(kind, each) for name, each in named if (kind := _KINDS.get(name, ""))]
        for kind, each in sorted(own, key=lambda one: order.index(one[0])):
            yield from _walked(each, kind)
        for name, each in named:
            if not _KINDS.get(name, "") and isinstance(each, list | dict):
                yield "", ""
                yield from _walked(each, _MEMBERS.get(name, ""))


def _by_lines(body: str) -> Iterator[Event]:
    """Read lines such as `Claim 1: ...`."""
    for line in _LINE.finditer(body):
        if _name(line[1]) in _KINDS:
            rest = body[line.end() : line.end() + 2000].partition("\n")[0]
            yield _KINDS[_name(line[1])], rest.strip(" \t*_\"'`")


def _name(written: object) -> str:
    return re.sub(r"[^a-z]", "", str(written).casefold())
